//! Makes a backend by its name, together with the backends inside it.
//!
//! Several backends can share a network, which is then read only once. It is not read at all if no backend needs it.

use super::cards::{self, CardMaker};
use super::config::BackendConfig;
use rukh_backend::multi::Child;
use rukh_backend::options_dict::OptionsDict;
use rukh_backend::{Backend, BackendError, LARGEST_BATCH};
use rukh_base::quote::quoted;
use rukh_net::discover::Candidates;
use rukh_net::{HeadSelection, Network, NetworkError, NetworkFile};
use rukh_options::BackendName;
use rukh_options::lc0::{self, backend_in_place_of};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

/// The limit on backends nested inside each other, because they are made recursively.
const MAXIMUM_DEPTH: usize = 8;

/// The most positions that `multiplexing` merges into one batch by default, as in lc0.
const MULTIPLEXING_BATCH: usize = 256;

/// The maker some of whose backends have lc0's names.
const NVIDIA: CardMaker = CardMaker::Nvidia;

/// One backend that the user can name.
pub struct BackendKind {
    /// The backend's name in the option `Backend`.
    pub name: BackendName,
    /// A description in one line.
    pub description: &'static str,
    /// The lists of the backend's own options.
    pub options: &'static [&'static [&'static str]],
    /// Whether `auto` may choose the backend.
    pub selection: Selection,
    /// Makes the backend of this name from its own options.
    pub(super) make: fn(&Maker<'_>, BackendName, OptionsDict<'_>) -> Made,
}

/// Whether a backend is chosen automatically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    /// The backend evaluates the network, and `auto` tries it.
    Automatic,
    /// The backend evaluates the network, but is chosen only if the user names it.
    ByName,
    /// The backend does not evaluate a network itself.
    WithoutNetwork,
}

/// A new backend, or the reason why it cannot be made.
pub(super) type Made = Result<Arc<dyn Backend>, BackendError>;

/// The state that the functions of [`BackendKind::make`] share while one configuration is put together.
pub(super) struct Maker<'a> {
    config: &'a BackendConfig,
    kinds: &'a [BackendKind],
    /// The networks that the configuration stands for, once one of them was needed.
    candidates: RefCell<Option<Candidates>>,
    /// The network's file, kept while another backend may need it.
    file: RefCell<Option<NetworkFile>>,
    /// The path of the network's file.
    found: RefCell<Option<PathBuf>>,
    /// The networks that several backends may share, by the choice of heads.
    networks: RefCell<Vec<(HeadSelection, Arc<Network>)>>,
    /// Whether the network that was found imitates people.
    imitates_people: Cell<bool>,
    notices: RefCell<Vec<String>>,
    /// What only users who ask for it want to know.
    details: RefCell<Vec<String>>,
    /// Whether `auto` found no card. Taking the processor then needs no explanation.
    has_no_card: Cell<bool>,
    /// The number of nested backends that are being made.
    depth: Cell<usize>,
    /// Whether to do without the devices that cannot be used, instead of reporting an error, where that is possible.
    devices: MissingDevices,
    /// The backends made so far.
    made: RefCell<Vec<BackendName>>,
    /// Whether the user named a device, and not `auto`.
    device_is_named: Cell<bool>,
    /// The heads that the first backend with a network asked for.
    heads: RefCell<Option<HeadSelection>>,
}

/// What was found while a configuration was put together.
pub(super) struct Findings {
    /// The network's path, or a name in angle brackets.
    pub(super) network: Option<String>,
    /// Whether the network was trained to move as people do.
    pub(super) imitates_people: bool,
    /// Messages for the user.
    pub(super) notices: Vec<String>,
    /// Messages for a user who asks for details.
    pub(super) details: Vec<String>,
}

/// What to do about devices that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingDevices {
    /// They are an error, unless `auto` finds another backend.
    Fail,
    /// Several devices do without those that are missing.
    LeaveOut,
    /// The same, and `auto` takes no device at all, because it lost one earlier.
    AvoidByAuto,
}

/// Whether a backend evaluates on a device that may be lost.
pub(super) fn is_device(name: BackendName) -> bool {
    CardMaker::of_backend(name).is_some()
}

/// Whether a backend of Rukh or of lc0 has this name.
fn is_known(name: &str) -> bool {
    BackendName::from_name(name).or_else(|| backend_in_place_of(name)).is_some()
}

/// The instructions and the number format in the name of a backend on the processor, such as `cpu-bf16 (AMX)`.
fn on_processor(name: &str) -> String {
    let (kind, instructions) = name.split_once(" (").unwrap_or((name, ""));
    let instructions = instructions.trim_end_matches(')');
    match kind.strip_prefix("cpu-") {
        Some(format) => format!("{instructions}, {format}"),
        None => instructions.to_owned(),
    }
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        config: &'a BackendConfig,
        kinds: &'a [BackendKind],
        devices: MissingDevices,
    ) -> Maker<'a> {
        Maker {
            config,
            kinds,
            candidates: RefCell::default(),
            file: RefCell::default(),
            found: RefCell::default(),
            networks: RefCell::default(),
            imitates_people: Cell::default(),
            notices: RefCell::default(),
            details: RefCell::default(),
            has_no_card: Cell::default(),
            depth: Cell::default(),
            devices,
            made: RefCell::default(),
            device_is_named: Cell::default(),
            heads: RefCell::default(),
        }
    }

    /// The backends made so far, children before the backends that contain them.
    pub(super) fn made(&self) -> Vec<BackendName> {
        self.made.borrow().clone()
    }

    /// Whether `auto` takes no device.
    pub(super) fn avoids_devices(&self) -> bool {
        self.devices == MissingDevices::AvoidByAuto
    }

    /// Whether the user named a device, and not `auto`.
    pub(super) fn device_is_named(&self) -> bool {
        self.device_is_named.get()
    }

    /// The path of the network's file. Looks for the file if no backend needed it so far.
    pub(super) fn network_path(&self) -> Result<PathBuf, BackendError> {
        if self.found.borrow().is_none() {
            let file = self.network_file().map_err(|error| BackendError::Network(error.to_string()))?;
            *self.file.borrow_mut() = Some(file);
        }
        Ok(self.found.borrow().clone().unwrap_or_default())
    }

    pub(super) fn config(&self) -> &BackendConfig {
        self.config
    }

    /// Adds a message for the user, unless it is there already.
    pub(super) fn notice(&self, text: String) {
        let mut notices = self.notices.borrow_mut();
        if !notices.contains(&text) {
            notices.push(text);
        }
    }

    /// A notice that is only a detail if the processor was taken because there is no card.
    pub(super) fn notice_of_processor(&self, text: String) {
        match self.has_no_card.get() {
            true => self.details.borrow_mut().push(text),
            false => self.notice(text),
        }
    }

    /// What was found on the way.
    pub(super) fn into_findings(self) -> Findings {
        Findings {
            network: self.found.into_inner().map(|path| path.display().to_string()),
            imitates_people: self.imitates_people.get(),
            notices: self.notices.into_inner(),
            details: self.details.into_inner(),
        }
    }

    /// Makes the backend called `name`.
    pub(super) fn make(&self, name: &str, options: OptionsDict<'_>) -> Made {
        let (name, options, is_of_lc0) = match (BackendName::from_name(name), backend_in_place_of(name)) {
            // lc0 has some of the names for NVIDIA's cards, too.
            (Some(name), _) => (name, options, CardMaker::of_backend(name) == Some(NVIDIA)),
            (None, Some(ours)) => {
                self.notice(format!("{ours} takes the place of lc0's backend {}", quoted(name)));
                (ours, options.only(lc0::KEPT_BACKEND_OPTIONS), true)
            }
            (None, None) => {
                let known = BackendName::NAMES.join(", ");
                return Err(BackendError::Unknown { name: name.to_owned(), known });
            }
        };
        let Some(kind) = self.kinds.iter().find(|kind| kind.name == name) else {
            return self.make_auto(options);
        };
        // lc0's users name these backends on machines of every kind. Without a card they mean `auto`; with one, its error
        // must be seen.
        let maker = CardMaker::of_backend(name).filter(|_| is_of_lc0);
        match (self.make_kind(kind, options), maker) {
            (Err(error @ BackendError::Create { .. }), Some(maker)) if !cards::has_usable_card(maker) => {
                self.notice(format!("{error}; using auto instead"));
                self.make_auto_without(Some(maker), options.only(lc0::KEPT_BACKEND_OPTIONS))
            }
            (made, _) => {
                self.device_is_named.update(|named| named || is_device(kind.name));
                made
            }
        }
    }

    fn make_kind(&self, kind: &BackendKind, options: OptionsDict<'_>) -> Made {
        if self.depth.get() == MAXIMUM_DEPTH {
            let reason = format!("backends are nested more than {MAXIMUM_DEPTH} deep");
            return Err(BackendError::Create { name: kind.name.to_string(), reason });
        }
        self.depth.update(|depth| depth + 1);
        let made = (kind.make)(self, kind.name, options.listed_in(kind.options));
        self.depth.update(|depth| depth - 1);
        if made.is_ok() {
            self.made.borrow_mut().push(kind.name);
        }
        made
    }

    /// Makes the best backend that can run the network on this machine.
    fn make_auto(&self, options: OptionsDict<'_>) -> Made {
        self.make_auto_without(None, options)
    }

    /// Makes the best backend that can run the network on this machine, and that is not on a card of the maker `missing`.
    fn make_auto_without(&self, missing: Option<CardMaker>, options: OptionsDict<'_>) -> Made {
        let file = self.network_file().map_err(|error| BackendError::Network(error.to_string()))?;
        *self.file.borrow_mut() = Some(file);
        let mut first_failure = None;
        for kind in self.candidates(missing) {
            let notices_before = self.notices.borrow().len();
            match (self.make_kind(kind, options), &first_failure) {
                // A backend that cannot run on this machine is skipped. The user can correct the cause of any other
                // error.
                (Err(error @ BackendError::Create { .. }), None) => first_failure = Some(error),
                (Err(BackendError::Create { .. }), Some(_)) => {}
                (Ok(backend), Some(error)) => {
                    let mut notice = format!("{error}; using {} instead", kind.name);
                    if self.has_no_card.get() {
                        self.details.borrow_mut().push(notice);
                        let processor = on_processor(&backend.attributes().name);
                        notice =
                            format!("no graphics card that Rukh can use; using the processor ({processor})");
                    }
                    // What the backend itself has to say comes afterwards.
                    self.notices.borrow_mut().insert(notices_before, notice);
                    return Ok(backend);
                }
                (made, _) => return made,
            }
        }
        Err(first_failure.unwrap_or_else(|| BackendError::Create {
            name: BackendName::Auto.to_string(),
            reason: "this build has no backend that evaluates networks".to_owned(),
        }))
    }

    /// The backends that `auto` tries, in order: on cards, and then those of the processor.
    fn candidates(&self, missing: Option<CardMaker>) -> Vec<&'a BackendKind> {
        let mut makers = Vec::new();
        if !self.avoids_devices() && self.kinds.iter().any(|kind| is_device(kind.name)) {
            let (found, notice) = cards::makers();
            self.has_no_card.set(found.is_empty());
            // Without any, the error of the first says what is missing, for users who ask.
            let found = if found.is_empty() { vec![CardMaker::Amd] } else { found };
            makers = found.into_iter().filter(|&maker| Some(maker) != missing).collect();
            if makers.len() > 1 {
                notice.into_iter().for_each(|notice| self.notice(notice));
            }
        }
        let automatic = || self.kinds.iter().filter(|kind| kind.selection == Selection::Automatic);
        let of_maker =
            |maker| automatic().filter(move |kind| CardMaker::of_backend(kind.name) == Some(maker));
        let others = automatic().filter(|kind| !is_device(kind.name));
        makers.into_iter().flat_map(of_maker).chain(others).collect()
    }

    /// Makes the children that `options` list. If the list is empty, makes one child: the backend that `backend=`
    /// names, or else `auto`.
    pub(super) fn children(&self, options: OptionsDict<'_>) -> Result<Vec<Child>, BackendError> {
        let nodes = options.children();
        if nodes.is_empty() {
            let name = options.inherited_backend().unwrap_or(BackendName::Auto.name());
            return Ok(vec![self.child(name, options.for_child())?]);
        }
        let mut children = Vec::new();
        let mut first_failure = None;
        for node in nodes {
            match self.child(node.backend_name(is_known), node) {
                Ok(child) => children.push(child),
                Err(error @ BackendError::Create { .. }) if self.devices != MissingDevices::Fail => {
                    self.notice(format!("error: {error}"));
                    first_failure.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match first_failure {
            Some(error) if children.is_empty() => Err(error),
            _ => Ok(children),
        }
    }

    fn child(&self, name: &str, options: OptionsDict<'_>) -> Result<Child, BackendError> {
        if name.is_empty() {
            let reason =
                "a child without a name needs backend=NAME, inside or outside its parentheses".to_owned();
            return Err(BackendError::Option { option: "( … )".to_owned(), reason });
        }
        let child = Child::new(self.make(name, options)?);
        let maximum_batch = child.maximum_batch;
        Ok(Child {
            threads: options.number("workers", child.threads, 1..=128)?,
            maximum_batch: options
                .number("max_batch", MULTIPLEXING_BATCH.min(maximum_batch), 1..=LARGEST_BATCH)?
                .min(maximum_batch),
            ..child
        })
    }

    /// The choice of heads of the first backend with a network, or else that of `options`.
    pub(super) fn first_heads(&self, options: OptionsDict<'_>) -> HeadSelection {
        self.heads.borrow().clone().unwrap_or_else(|| self.heads(options))
    }

    fn heads(&self, options: OptionsDict<'_>) -> HeadSelection {
        options.heads(HeadSelection {
            policy_optimism: self.config.policy_optimism,
            value_error: self.config.value_error,
            ..HeadSelection::default()
        })
    }

    /// The network, with the heads that `options` choose.
    ///
    /// A backend without siblings gets the only reference: the maker keeps neither the file nor the network while the
    /// backend packs the weights.
    pub(super) fn network(&self, options: OptionsDict<'_>) -> Result<Arc<Network>, BackendError> {
        let heads = self.heads(options);
        self.heads.borrow_mut().get_or_insert_with(|| heads.clone());
        let known = self
            .networks
            .borrow()
            .iter()
            .find(|(known, _)| *known == heads)
            .map(|(_, network)| Arc::clone(network));
        if let Some(network) = known {
            return Ok(network);
        }
        let (file, network) =
            self.file_and_network(&heads).map_err(|error| BackendError::Network(error.to_string()))?;
        let network = Arc::new(network);
        if self.depth.get() > 1 {
            *self.file.borrow_mut() = Some(file);
            self.networks.borrow_mut().push((heads, Arc::clone(&network)));
        }
        Ok(network)
    }

    /// Returns the network's file. Opens it unless an earlier call kept it.
    fn network_file(&self) -> Result<NetworkFile, NetworkError> {
        if let Some(file) = self.file.take() {
            return Ok(file);
        }
        let file = self.with_candidates(Candidates::open_best)?;
        self.note_file(&file);
        Ok(file)
    }

    /// Uses `file` as if it had been found.
    pub(super) fn set_file(&self, file: NetworkFile) {
        self.note_file(&file);
        *self.file.borrow_mut() = Some(file);
    }

    fn note_file(&self, file: &NetworkFile) {
        *self.found.borrow_mut() = Some(file.path().to_owned());
        self.imitates_people.set(file.imitates_people());
    }

    /// The network with these heads, and its file. A network that was discovered and turns out to be damaged is passed
    /// over.
    fn file_and_network(&self, heads: &HeadSelection) -> Result<(NetworkFile, Network), NetworkError> {
        loop {
            let file = self.network_file()?;
            match file.network(heads) {
                Ok(network) => return Ok((file, network)),
                Err(error) => self.with_candidates(|candidates| candidates.pass_over(error))?,
            }
        }
    }

    /// Runs `body` with the networks that the configuration stands for, and tells the user which were passed over.
    fn with_candidates<T>(&self, body: impl FnOnce(&mut Candidates) -> T) -> T {
        let mut candidates = self.candidates.borrow_mut();
        let candidates = candidates.get_or_insert_with(|| Candidates::at(&self.config.network));
        let result = body(candidates);
        candidates.take_messages().into_iter().for_each(|message| self.notice(message));
        result
    }
}
