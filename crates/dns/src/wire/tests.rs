use bindery_core::Record;
use proptest::prelude::*;

use super::*;

fn row(line: &str) -> WireRecord {
    let record: Record = line.parse().unwrap();
    WireRecord::new(record.name, record.ttl, &record.data)
}

const LINES: [&str; 10] = [
    "www.example.com. 300 IN A 192.0.2.1",
    "www.example.com. 300 IN AAAA 2001:db8::1",
    "alias.example.com. 300 IN CNAME www.example.com.",
    "txt.example.com. 60 IN TXT \"a b\" \"\\001\"",
    "example.com. 300 IN MX 10 mail.example.com.",
    "sub.example.com. 300 IN NS ns.sub.example.com.",
    "_x._tcp.example.com. 300 IN SRV 1 2 3 www.example.com.",
    "example.com. 300 IN CAA 0 issue \"ca.example.net\"",
    "1.example.com. 300 IN PTR www.example.com.",
    "odd.example.com. 300 IN TYPE65280 \\# 3 010203",
];

#[test]
fn a_message_with_all_types_reads_back_as_written() {
    let message = Message {
        head: Head {
            id: 7,
            response: true,
            authoritative: true,
            rcode: rcode::NXDOMAIN,
            ..Head::default()
        },
        question: vec![Question::new(Name::parse("www.example.com.").unwrap(), 1)],
        answer: LINES.iter().map(|line| row(line)).collect(),
        authority: vec![row(
            "example.com. 60 IN SOA ns.example.com. h.example.com. 1 2 3 4 5",
        )],
        additional: vec![WireRecord {
            name: Name::root(),
            rtype: rtype::OPT,
            class: 1232,
            ttl: 0,
            rdata: Vec::new(),
        }],
    };
    let bytes = datagram_bytes(message.compose(4096).unwrap());
    assert_eq!(Message::parse(&bytes).unwrap(), message);
    let stream = stream_bytes(message.compose(4096).unwrap());
    assert_eq!(&stream[2..], bytes);
    assert_eq!(
        usize::from(stream[0]) * 256 + usize::from(stream[1]),
        bytes.len()
    );
}

#[test]
fn compressed_names_in_data_are_written_out() {
    // `b.` CNAME pointing to the name at offset 12, which is the question's `a.b.`.
    let mut bytes = vec![0, 1, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
    bytes.extend_from_slice(b"\x01A\x01b\x00\x00\x05\x00\x01");
    bytes.extend_from_slice(b"\xc0\x0e\x00\x05\x00\x01\x00\x00\x00\x09\x00\x02\xc0\x0c");
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.answer[0].rdata, b"\x01A\x01b\x00");
    assert_eq!(
        message.answer[0].data().unwrap(),
        row("b. 9 IN CNAME a.b.").data().unwrap()
    );
    assert_eq!(&*message.question[0].spelled, b"\x01A\x01b\x00");
    assert_eq!(message.question[0].name, Name::parse("a.b.").unwrap());
}

#[test]
fn a_message_over_its_limit_is_an_error() {
    let message = Message {
        answer: vec![row(LINES[0]); 100],
        ..Message::default()
    };
    assert_eq!(message.compose(512).err(), Some(TooLong));
    assert!(message.compose(4096).is_ok());
    let huge = Message {
        answer: vec![row(LINES[0]); 5000],
        ..Message::default()
    };
    assert_eq!(huge.compose(usize::MAX).err(), Some(TooLong));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(Message::parse(&bytes));
    }

    #[test]
    fn a_flipped_byte_is_read_or_refused(at in 0_usize..400, value: u8) {
        let message = Message {
            question: vec![Question::new(Name::parse("www.example.com.").unwrap(), 1)],
            answer: LINES.iter().map(|line| row(line)).collect(),
            ..Message::default()
        };
        let mut bytes = datagram_bytes(message.compose(4096).unwrap());
        let at = at % bytes.len();
        bytes[at] = value;
        drop(Message::parse(&bytes));
    }

    #[test]
    fn what_is_parsed_can_be_composed_and_parsed_to_the_same(
        bytes in proptest::collection::vec(any::<u8>(), 12..120),
    ) {
        if let Ok(message) = Message::parse(&bytes) {
            let again = datagram_bytes(message.compose(65_535).unwrap());
            prop_assert_eq!(Message::parse(&again).unwrap(), message);
        }
    }
}
