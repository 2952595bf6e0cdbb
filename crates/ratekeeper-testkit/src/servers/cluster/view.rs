//! Parser of `CLUSTER NODES`: the cluster as one of its nodes reports it.

use std::ops::RangeInclusive;

/// One node as another reports it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NodeView {
    pub(super) id: String,
    pub(super) port: u16,
    /// The primary it replicates, if it is a replica.
    pub(super) primary: Option<String>,
    /// Marked as failing, by this node (`fail?`) or by most (`fail`).
    pub(super) is_failing: bool,
    pub(super) slots: Vec<(u16, u16)>,
}

impl NodeView {
    pub(super) fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|&(first, last)| RangeInclusive::new(first, last).contains(&slot))
    }
}

/// Parses all lines; `None` during a handshake, while a node has a temporary id.
pub(super) fn parse_nodes(lines: &str) -> Option<Vec<NodeView>> {
    let nodes: Vec<_> = lines.lines().map(parse_node).collect();
    nodes.into_iter().collect()
}

/// `<id> <ip:port@bus> <flags> <primary> <ping> <pong> <epoch> <link> <slot> <slot-slot> [slot->-id] …`
fn parse_node(line: &str) -> Option<NodeView> {
    let mut fields = line.split(' ');
    let mut next = || fields.next().unwrap_or_else(|| panic!("no line of CLUSTER NODES: {line:?}"));
    let (id, address, flags, primary) = (next(), next(), next(), next());
    let flags: Vec<_> = flags.split(',').collect();
    if flags.contains(&"handshake") || flags.contains(&"noaddr") {
        return None;
    }
    let port = address.split(['@', ',']).next()?.rsplit(':').next()?.parse().ok()?;
    // Slots that are being moved are in brackets; the owner lists them without brackets as well.
    let slots = fields.skip(4).filter(|slot| !slot.starts_with('['));
    Some(NodeView {
        id: id.into(),
        port,
        primary: (primary != "-").then(|| primary.into()),
        is_failing: flags.iter().any(|flag| flag.starts_with("fail")),
        slots: slots.map(parse_slots).collect::<Option<_>>()?,
    })
}

fn parse_slots(slots: &str) -> Option<(u16, u16)> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_all_kinds_of_slots_is_read() {
        let lines = "aa 127.0.0.1:7000@17000,,tls-port=0 myself,master,fail? - 0 17 3 connected 0-5 9 [7->-bb]\n\
                     bb 127.0.0.1:7001@17001 slave aa 0 17 3 connected\n";
        let nodes = parse_nodes(lines).unwrap();
        assert_eq!((nodes[0].port, &nodes[0].primary, nodes[0].is_failing), (7000, &None, true));
        assert_eq!(nodes[0].slots, [(0, 5), (9, 9)]);
        assert!(nodes[0].owns(5) && nodes[0].owns(9) && !nodes[0].owns(7));
        assert_eq!((nodes[1].primary.as_deref(), nodes[1].slots.len()), (Some("aa"), 0));
    }

    #[test]
    fn there_is_no_view_during_a_handshake() {
        assert_eq!(parse_nodes("aa 127.0.0.1:7000@17000 handshake - 0 0 0 connected\n"), None);
    }
}
