//! Slots of a cluster: the slot of a key, and the owners in a `CLUSTER SLOTS` reply.

use redis::Value;

use crate::address::HostPort;

/// The number of slots of every cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: the CRC16 of its hash tag, or of all of it.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// The text between the first `{` and the next `}`; the whole key if there is none or it is empty.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = || {
        let start = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[start..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[start..start + length])
    };
    tag().unwrap_or(key)
}

/// CRC-16/XMODEM, which the cluster specification names.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC_TABLE[usize::from((crc >> 8) ^ u16::from(*byte)) & 0xff])
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// Slots from first to last, and their owner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) owner: HostPort,
}

/// Reads the reply to `CLUSTER SLOTS`. Malformed ranges are left out; calls about their keys are redirected.
///
/// ```text
/// [ [first, last, [host, port, id, …], replicas…], … ]
/// ```
pub(super) fn read_slots(reply: &Value, sender: &HostPort) -> Vec<Range> {
    let Value::Array(ranges) = reply else { return Vec::new() };
    ranges.iter().filter_map(|range| read_range(range, sender)).collect()
}

fn read_range(range: &Value, sender: &HostPort) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = parts.as_slice() else { return None };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let [host, Value::Int(port), ..] = owner.as_slice() else { return None };
    let host = match host {
        // A node that does not know its address means the address it was reached at.
        Value::Nil => "",
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        _ => return None,
    };
    // A question mark means that the host is not known.
    let owner = HostPort::from_redirect(&format!("{host}:{port}"), sender).filter(|owner| &*owner.host != "?")?;
    (first <= last && last < SLOTS).then_some(Range { first, last, owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn only_the_first_tag_counts_and_only_if_it_is_not_empty() {
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"rk:{foo}:bar"), slot_of(b"foo"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo}{bar"), b"foo}{bar");
    }

    #[test]
    fn unknown_hosts_and_malformed_ranges_are_handled() {
        let bytes = "*4\r\n\
            *4\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\naa\r\n*0\r\n*2\r\n$1\r\nr\r\n:7003\r\n\
            *3\r\n:5461\r\n:10922\r\n*3\r\n$-1\r\n:7001\r\n$2\r\nbb\r\n\
            *3\r\n:10923\r\n:16383\r\n*3\r\n$1\r\n?\r\n:7002\r\n$2\r\ncc\r\n\
            *3\r\n:9\r\n:99999\r\n*3\r\n$1\r\na\r\n:7002\r\n$2\r\ncc\r\n";
        let reply = redis::parse_redis_value(bytes.as_bytes()).unwrap();
        let range = |first, last, host, port| Range { first, last, owner: HostPort::new(host, port) };
        let sender = HostPort::new("10.0.0.9", 7009);
        let expected = [range(0, 5460, "127.0.0.1", 7000), range(5461, 10922, "10.0.0.9", 7001)];
        assert_eq!(read_slots(&reply, &sender), expected);
        assert_eq!(read_slots(&Value::Nil, &sender), []);
    }
}
