//! Network files: what loads and what it becomes, what is refused and how.

use rukh::net::{HeadSelection, Network};
use std::path::Path;

#[test]
fn all_shared_networks_load() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/nets");
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "gz") {
            let net = Network::load(&path, &HeadSelection::default());
            println!("{} {:?}", path.display(), net.map(|n| n.architecture));
        }
    }
}
