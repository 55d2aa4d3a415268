//! The links of a node to its children: a chain of segments that only ever grows at its end.
//!
//! A link belongs to a move that was visited or may be visited next. It counts the visits that were made through the
//! link. The child may have more visits, from other parents. Selection first visits moves in the order of their priors,
//! so the links are those of the moves with the highest priors, in that order. Most nodes have no links. A new segment
//! is made when a thread needs a move that has no link, and every second segment is twice as long as the one before.
//! Links never move, so readers need no lock.
//!
//! ```text
//! node.links -> [next, link 0]
//!                 `-> [next, link 1]
//!                       `-> [next, link 2, link 3]
//!                             `-> [next, link 4, link 5] -> …
//! link = [child, move+prior, visits, in flight]      four words
//! ```
//! | word | written by | ordering | pairs with |
//! |---|---|---|---|
//! | next | CAS from 0 | AcqRel / Acquire | itself: publishes the segment |
//! | child | CAS from 0; no thread removes it during a search | AcqRel / Acquire | itself: publishes the child's key and flags |
//! | move+prior | the thread that publishes the segment; later `fetch_or` of one flag | Relaxed | next |
//! | visits | backup, `fetch_add` after the child's; absorbing, CAS | Release / Acquire: never more than the child's | the child's visits |
//! | in flight | gather adds (Relaxed); backup, after `visits`, or a cancellation subtracts (Release) | Acquire to absorb | `visits`: a visit that is no longer in flight is counted |

use super::allocator::{Allocator, Storage};
use super::edge::Edge;
use super::node::Node;
use super::node_id::NodeId;
use super::priors::{Place, PriorCode};
use super::status::MOST_EDGES;
use rukh_base::cache_line::load_ahead;
use rukh_base::sync::atomic::{AtomicU32, Ordering};
use rukh_chess::{PackedMove, Position};
use std::num::NonZeroU32;

/// The size of a link in words.
pub(super) const LINK_WORDS: usize = 4;
/// A bit of the move+prior word that no move uses. If it is set, the child's exact result has been backed up to the
/// parent.
const RESULT_SEEN: u32 = 1 << 15;
const LONGEST_SEGMENT_BITS: u32 = 7;
/// Nearly all nodes have no more moves than this. For them, shorter arrays need not be filled with as many zeros.
const USUAL_MOVES: usize = 64;
/// Nearly all segments have no more links than this.
const USUAL_SEGMENT: usize = 8;

/// The index of a link: its first word in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkId(NonZeroU32);

/// A link from a node to a child.
#[derive(Clone, Copy, Debug)]
pub struct Link<'tree> {
    words: &'tree [AtomicU32; LINK_WORDS],
}

impl Link<'_> {
    /// The move and its prior.
    #[inline]
    pub fn edge(&self) -> Edge {
        Edge::from_bits(self.words[1].load(Ordering::Relaxed) & !RESULT_SEEN)
    }

    /// The child; `None` if no thread has set it yet.
    #[inline]
    pub fn child(&self) -> Option<NodeId> {
        NodeId::from_raw(self.words[0].load(Ordering::Acquire))
    }

    /// Sets the child.
    ///
    /// # Errors
    /// Another thread has set the child already. The error is that child.
    pub(super) fn set_child(&self, child: NodeId) -> Result<(), NodeId> {
        match self.words[0].compare_exchange(0, child.raw(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(winner) => Err(NodeId::from_raw(winner).unwrap_or(child)),
        }
    }

    /// Removes the child. No search may be running.
    pub(super) fn clear_child(&self) {
        self.words[0].store(0, Ordering::Relaxed);
    }

    /// The number of finished visits through this link.
    #[inline]
    pub fn visits(&self) -> u32 {
        self.words[2].load(Ordering::Acquire)
    }

    /// The number of visits in flight through this link.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.words[3].load(Ordering::Relaxed)
    }

    /// Whether visits are in flight through this link. If not, what their threads have done below the link is seen.
    pub(super) fn has_in_flight(&self) -> bool {
        self.words[3].load(Ordering::Acquire) > 0
    }

    /// The number of visits that are finished or in flight.
    #[inline]
    pub fn started(&self) -> u32 {
        self.visits().wrapping_add(self.in_flight())
    }

    /// Adds `count` visits in flight, which lower the link's score until they end.
    #[inline]
    pub fn add_in_flight(&self, count: u32) {
        self.words[3].fetch_add(count, Ordering::Relaxed);
    }

    /// Removes `count` visits in flight. Finished visits must be counted first, with [`Link::finish`].
    #[inline]
    pub fn cancel_in_flight(&self, count: u32) {
        self.words[3].fetch_sub(count, Ordering::Release);
    }

    /// Counts finished visits. The child must have counted them before.
    #[inline]
    pub fn finish(&self, count: u32) {
        self.words[2].fetch_add(count, Ordering::Release);
    }

    /// Counts up to `count` of the visits in flight as finished, if `child` has visits from other parents that this
    /// link has not counted. Returns their number. The caller must then cancel them in flight.
    pub fn absorb(&self, count: u32, child: &Node) -> u32 {
        let child_visits = child.visits();
        // The child may have counted visits of other threads that are still in flight through this link. They are the
        // link's own visits and must not be absorbed. A visit that this load no longer sees in flight is among the
        // link's visits below.
        let others = self.words[3].load(Ordering::Acquire).saturating_sub(count);
        let mut absorbed = 0;
        let _ = self.words[2].fetch_update(Ordering::AcqRel, Ordering::Acquire, |visits| {
            absorbed = count.min(child_visits.saturating_sub(visits).saturating_sub(others));
            (absorbed > 0).then_some(visits + absorbed)
        });
        absorbed
    }

    /// Marks that the child's exact result is being backed up to the parent. Returns `true` the first time.
    pub fn note_result(&self) -> bool {
        self.words[1].load(Ordering::Relaxed) & RESULT_SEEN == 0
            && self.words[1].fetch_or(RESULT_SEEN, Ordering::Relaxed) & RESULT_SEEN == 0
    }

    /// Sets the number of finished visits. No search may be running.
    pub(super) fn set_visits(&self, visits: u32) {
        self.words[2].store(visits, Ordering::Release);
    }

    /// Initialises the link before its segment is published.
    fn begin(&self, edge: Edge) {
        self.words[0].store(0, Ordering::Relaxed);
        self.words[1].store(edge.bits(), Ordering::Relaxed);
        self.words[2].store(0, Ordering::Relaxed);
        self.words[3].store(0, Ordering::Relaxed);
    }
}

/// An iterator over the links of a node, in order. [`Links::grow`] adds links at the end, and the iterator then
/// continues with them.
#[derive(Clone)]
pub struct Links<'tree> {
    storage: &'tree Storage,
    node: &'tree Node,
    /// Holds the start of the next segment, or 0.
    next_segment: &'tree AtomicU32,
    /// The links of the current segment that the iterator has not returned yet.
    rest: std::slice::Iter<'tree, [AtomicU32; LINK_WORDS]>,
    /// The index of the first word of `rest`.
    rest_start: u32,
    last_of_segment: Option<Link<'tree>>,
    /// The number of segments entered so far.
    segments: u32,
    /// The number of edges beyond the current segment.
    edges_left: usize,
}

impl<'tree> Iterator for Links<'tree> {
    type Item = (LinkId, Link<'tree>);

    #[inline]
    fn next(&mut self) -> Option<(LinkId, Link<'tree>)> {
        loop {
            if let Some(words) = self.rest.next() {
                let id = NonZeroU32::new(self.rest_start).map(LinkId)?;
                self.rest_start += LINK_WORDS as u32;
                return Some((id, Link { words }));
            }
            self.enter_segment(self.next_segment.load(Ordering::Acquire))?;
        }
    }
}

impl<'tree> Links<'tree> {
    fn length_of_next(&self) -> usize {
        (1 << (self.segments / 2).min(LONGEST_SEGMENT_BITS)).min(self.edges_left)
    }

    /// Calls `visit` with each link that the iterator has not returned yet. This is faster than a loop over the iterator.
    #[inline]
    pub fn for_each_of_rest(&mut self, mut visit: impl FnMut(LinkId, Link<'tree>)) {
        loop {
            for words in self.rest.by_ref() {
                if let Some(id) = NonZeroU32::new(self.rest_start) {
                    visit(LinkId(id), Link { words });
                }
                self.rest_start += LINK_WORDS as u32;
            }
            if self.enter_segment(self.next_segment.load(Ordering::Acquire)).is_none() {
                return;
            }
        }
    }

    #[inline]
    fn enter_segment(&mut self, start: u32) -> Option<()> {
        let length = self.length_of_next();
        if start == 0 || length == 0 {
            return None;
        }
        let (next_segment, links) =
            self.storage.words.slice(start, segment_words(length) as usize).split_first()?;
        let (links, _) = links.as_chunks();
        self.next_segment = next_segment;
        self.rest = links.iter();
        self.rest_start = start + 1;
        self.last_of_segment = links.last().map(|words| Link { words });
        self.segments += 1;
        self.edges_left -= length;
        Some(())
    }

    /// Adds a segment of links for the moves with the next highest priors; `moves` are all moves of the node's
    /// position. Call it on a clone of an iterator that has reached the end of the links; the original then continues
    /// with the new links. Returns `false` if there are no more moves, or the arena is full.
    pub fn grow(self, moves: &[PackedMove], allocator: &mut Allocator) -> bool {
        let length = self.length_of_next();
        if length == 0 {
            return false;
        }
        if length <= USUAL_SEGMENT {
            self.grow_by(&mut [Edge::from_bits(0); USUAL_SEGMENT][..length], moves, allocator)
        } else {
            self.grow_by(&mut [Edge::from_bits(0); 1 << LONGEST_SEGMENT_BITS][..length], moves, allocator)
        }
    }

    /// Finds the next edges, as many as the length of `edges`, and adds them.
    #[inline]
    fn grow_by(self, edges: &mut [Edge], moves: &[PackedMove], allocator: &mut Allocator) -> bool {
        let last = self.last_of_segment.map(|link| link.edge());
        let found = self.storage.next_edges(self.node, moves, last, edges);
        found == edges.len() && self.add_segment(edges, allocator)
    }

    /// Adds the next segment, with a link for each of `edges`.
    fn add_segment(&self, edges: &[Edge], allocator: &mut Allocator) -> bool {
        let words = segment_words(edges.len());
        let Some(fresh) = allocator.take_run(self.storage, words) else { return false };
        let segment = self.storage.words.slice(fresh, words as usize);
        segment[0].store(0, Ordering::Relaxed);
        for (words, &edge) in segment[1..].as_chunks().0.iter().zip(edges) {
            Link { words }.begin(edge);
        }
        // AcqRel: publishes the fresh segment, or receives the one that another thread published.
        if self.next_segment.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            allocator.keep_run(fresh, words);
        }
        true
    }
}

fn segment_words(links: usize) -> u32 {
    (1 + LINK_WORDS * links) as u32
}

impl Storage {
    /// The links of `node`, by descending prior.
    #[inline]
    pub(super) fn links<'tree>(&'tree self, node: &'tree Node) -> Links<'tree> {
        Links {
            storage: self,
            node,
            next_segment: &node.links,
            rest: [].iter(),
            rest_start: 0,
            last_of_segment: None,
            segments: 0,
            edges_left: node.edge_count(),
        }
    }

    #[inline]
    pub(super) fn link(&self, id: LinkId) -> Link<'_> {
        let words = self.words.slice(id.0.get(), LINK_WORDS);
        let Some(words) = words.first_chunk() else { unreachable!("the slice is that long") };
        Link { words }
    }

    /// Starts to load the first links of a node into the processor's cache, or its priors if it has no links.
    #[inline]
    pub(super) fn load_edges_ahead(&self, node: &Node) {
        let links = node.links.load(Ordering::Relaxed);
        // The priors of a node that is not evaluated are undefined, but then this only loads the wrong memory.
        if let Some(word) = self.words.get_made(if links == 0 { node.priors() } else { links }) {
            load_ahead(word);
        }
    }

    /// Makes links for all moves of `node`, which is the node of `position`. Returns `false` if the arena is full.
    pub(super) fn link_all(&self, node: &Node, position: &Position, allocator: &mut Allocator) -> bool {
        let mut moves = Vec::new();
        position.packed_moves(&mut moves);
        let mut links = self.links(node);
        loop {
            links.by_ref().for_each(drop);
            if links.edges_left == 0 {
                return true;
            }
            if !links.clone().grow(&moves, allocator) {
                return false;
            }
        }
    }

    /// Makes the links of a claimed node. `edges` are all its moves, by descending prior. These links keep their exact
    /// priors, while links that are made later get theirs from the node's rounded priors.
    pub(super) fn link_exactly(&self, node: &Node, edges: &[Edge], allocator: &mut Allocator) -> bool {
        let mut links = self.links(node);
        links.edges_left = edges.len();
        let mut rest = edges;
        while !rest.is_empty() {
            let (segment, later) = rest.split_at(links.length_of_next());
            if !links.add_segment(segment, allocator) {
                return false;
            }
            rest = later;
            links.by_ref().for_each(drop);
        }
        true
    }

    /// All moves of `node`, which is the node of `position`, by descending prior. Each comes with its link, if the move
    /// has a link.
    pub(super) fn edges<'tree>(
        &'tree self,
        node: &'tree Node,
        position: &Position,
    ) -> Vec<(Edge, Option<Link<'tree>>)> {
        let mut edges: Vec<_> = self.links(node).map(|(_, link)| (link.edge(), Some(link))).collect();
        let mut rest = [Edge::from_bits(0); 256];
        let rest_length = node.edge_count().saturating_sub(edges.len());
        let last = edges.last().map(|&(edge, _)| edge);
        if rest_length > 0 {
            let mut moves = Vec::new();
            position.packed_moves(&mut moves);
            let found = self.next_edges(node, &moves, last, &mut rest[..rest_length]);
            edges.extend(rest[..found].iter().map(|&edge| (edge, None)));
        }
        edges
    }

    /// Fills `edges` with the moves of `node` that follow `last` by descending prior; `moves` are all moves of the
    /// node's position. `edges` must not be longer than the number of moves that follow. Returns the number of moves
    /// found, which is the length of `edges` unless `moves` belongs to another position.
    fn next_edges(&self, node: &Node, moves: &[PackedMove], last: Option<Edge>, edges: &mut [Edge]) -> usize {
        let count = node.edge_count();
        if edges.is_empty() || moves.len().min(MOST_EDGES) != count {
            return 0;
        }
        match count <= USUAL_MOVES {
            true => self.next_edges_of::<USUAL_MOVES>(node, &moves[..count], last, edges),
            false => self.next_edges_of::<256>(node, &moves[..count], last, edges),
        }
    }

    /// The same for a node with at most `MOST` moves.
    #[inline]
    fn next_edges_of<const MOST: usize>(
        &self,
        node: &Node,
        moves: &[PackedMove],
        last: Option<Edge>,
        edges: &mut [Edge],
    ) -> usize {
        let count = moves.len();
        let mut codes = [0_u8; MOST];
        let words = self.words.slice(node.priors(), count.div_ceil(4));
        for (bytes, word) in codes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        // The order keys of the moves that may come next. All other entries are `LAST`, which no move has.
        let mut places: [Place; MOST] = std::array::from_fn(|index| {
            let place = Place::new(PriorCode::from_bits(codes[index]), index);
            if index < count { place } else { Place::LAST }
        });
        let last_index = last.and_then(|last| moves.iter().position(|&m| m == last.packed_move()));
        if let Some(last_place) = last_index.map(|index| places[index]) {
            for place in &mut places {
                *place = if *place < last_place { *place } else { Place::LAST };
            }
        }
        let mut found = 0;
        for slot in edges {
            let best = places.iter().fold(Place::LAST, |best, &place| best.max(place));
            if best == Place::LAST {
                break;
            }
            *slot = Edge::new(moves[best.index()], best.code().prior());
            places[best.index()] = Place::LAST;
            found += 1;
        }
        found
    }

    /// Writes the priors of a claimed node, in the order of its position's moves, and publishes it as expanded. Returns
    /// `false` if the arena is full; then the claim still stands.
    pub(super) fn expand(
        &self,
        node: &Node,
        priors: impl ExactSizeIterator<Item = f32>,
        allocator: &mut Allocator,
    ) -> bool {
        match priors.len() <= USUAL_MOVES {
            true => self.expand_to::<USUAL_MOVES>(node, priors, allocator),
            false => self.expand_to::<256>(node, priors, allocator),
        }
    }

    /// The same for a node with at most `MOST` moves.
    #[inline]
    fn expand_to<const MOST: usize>(
        &self,
        node: &Node,
        priors: impl ExactSizeIterator<Item = f32>,
        allocator: &mut Allocator,
    ) -> bool {
        let count = priors.len().min(MOST_EDGES);
        let words = count.div_ceil(4);
        let mut codes = [0_u8; MOST];
        for (code, prior) in codes[..count].iter_mut().zip(priors) {
            *code = PriorCode::new(prior).bits();
        }
        let Some(start) = allocator.take_run(self, words.max(1) as u32) else {
            return false;
        };
        for (word, &bytes) in self.words.slice(start, words).iter().zip(codes.as_chunks().0) {
            word.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
        node.publish_expanded(start, count);
        true
    }

    /// Passes all links of several nodes that no thread changes to `read`, one segment of a node at a time, with the
    /// node's place in the list. Each node comes with its number of edges. Reads one segment of each node before it goes
    /// on to their next segments, so that the processor loads them all at the same time.
    pub(super) fn read_together<'tree>(
        &'tree self,
        nodes: impl Iterator<Item = (&'tree Node, usize)>,
        mut read: impl FnMut(usize, Segment<'tree>),
    ) {
        let load_next = |links: &Links<'tree>| {
            let start = links.next_segment.load(Ordering::Acquire);
            if start != 0 {
                load_ahead(self.words.get(start));
            }
            start
        };
        let mut rest: Vec<(usize, u32, Links<'tree>)> = Vec::new();
        for (place, (node, edges_left)) in nodes.enumerate() {
            let links = Links { edges_left, ..self.links(node) };
            rest.push((place, load_next(&links), links));
        }
        while !rest.is_empty() {
            rest.retain_mut(|(place, start, links)| {
                if links.enter_segment(*start).is_none() {
                    return false;
                }
                let words = links.rest.as_slice();
                read(*place, Segment { start: *start, links: words });
                *start = load_next(links);
                true
            });
        }
    }
}

/// A segment of links.
pub(super) struct Segment<'tree> {
    start: u32,
    links: &'tree [[AtomicU32; LINK_WORDS]],
}

impl<'tree> Segment<'tree> {
    /// The segment's run of words: the first one, and their number.
    pub(super) fn run(&self) -> (u32, u32) {
        (self.start, segment_words(self.links.len()))
    }

    pub(super) fn links(&self) -> impl Iterator<Item = Link<'tree>> {
        self.links.iter().map(|words| Link { words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sample, Totals};

    #[test]
    fn a_link_absorbs_no_visit_that_is_its_own() {
        let words: [AtomicU32; LINK_WORDS] = Default::default();
        let link = Link { words: &words };
        let child = Node::default();
        let one_visit = Totals::of(Sample::default(), 1);
        // One thread has counted its visit at the child, but not yet at the link, when another thread absorbs.
        link.add_in_flight(1);
        child.finish(one_visit);
        link.add_in_flight(2);
        assert_eq!(link.absorb(2, &child), 0);
        link.finish(1);
        link.cancel_in_flight(1);
        assert_eq!(link.absorb(2, &child), 0);
        // A visit that the child has from another parent is absorbed once.
        child.finish(one_visit);
        assert_eq!((link.absorb(2, &child), link.absorb(2, &child)), (1, 0));
        assert_eq!((link.visits(), child.visits()), (2, 2));
    }
}
