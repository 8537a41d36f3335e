//! The examples of RFC 7541 Appendix C, and blocks that are wrong.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("the test is written in hex"))
        .collect()
}

fn lines(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
    let (mut text, mut shown) = (Vec::new(), String::new());
    decoder.decode::<HpackError>(block, &mut text, |text, field| {
        let part = |range| String::from_utf8_lossy(&text[range]).into_owned();
        shown += &format!("{}: {}\n", part(field.name()), part(field.value()));
        Ok(())
    })?;
    Ok(shown)
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
];

const RESPONSES: [&str; 3] = [
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
     content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
];

#[test]
fn the_examples_of_the_standard_decode_in_order() {
    // The responses of the standard assume a table of 256 bytes, which the first block here asks for.
    let c5_1 = "3fe1 01 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
        3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d";
    let c5_3 = "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
        666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 \
        303b 2076 6572 7369 6f6e 3d31";
    let c6_1 = "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
        29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
    let c6_3 = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
        b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
    for (name, blocks, expected, table_bytes) in [
        (
            "C.3",
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            REQUESTS,
            164,
        ),
        (
            "C.4",
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
            REQUESTS,
            164,
        ),
        ("C.5", [c5_1, "4803 3330 37c1 c0bf", c5_3], RESPONSES, 215),
        ("C.6", [c6_1, "4883 640e ffc1 c0bf", c6_3], RESPONSES, 215),
    ] {
        let mut decoder = Decoder::new();
        for (block, expected) in blocks.iter().zip(expected) {
            assert_eq!(lines(&mut decoder, &bytes(block)).as_deref(), Ok(expected), "{name}");
        }
        assert_eq!(decoder.table.bytes(), table_bytes, "{name}");
    }
}

#[test]
fn every_kind_of_literal_is_read() {
    for (block, expected, is_kept) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header\n", true),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", false),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", false),
        ("82", ":method: GET\n", false),
        ("20 3fe1 1f 82", ":method: GET\n", false),
        ("", "", false),
    ] {
        let mut decoder = Decoder::new();
        assert_eq!(lines(&mut decoder, &bytes(block)).as_deref(), Ok(expected));
        assert_eq!(decoder.table.bytes() > 0, is_kept, "{block}");
    }
}

#[test]
fn wrong_blocks_are_refused() {
    for (block, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("ff 80 80 80 80 80 80", HpackError::Integer),
        ("ff ff ff ff ff ff", HpackError::Integer),
        ("ff", HpackError::Integer),
        ("7f c0 ff ff ff 0f 00", HpackError::Index),
        ("40", HpackError::String),
        ("40 01 61", HpackError::String),
        ("40 01 61 05 61", HpackError::String),
        ("40 7f 61", HpackError::String),
        ("40 7f ff ff ff ff ff ff", HpackError::Integer),
        ("40 01 61 81 00", HpackError::Huffman),
        ("40 01 61 84 ff ff ff fc", HpackError::Huffman),
        ("3f e2 1f", HpackError::TableSize),
        ("3f e0 ff ff ff 0f", HpackError::TableSize),
        ("20 20 20 82", HpackError::TableSize),
        ("82 20", HpackError::TableSize),
    ] {
        assert_eq!(lines(&mut Decoder::new(), &bytes(block)), Err(error), "{block}");
    }
}

#[test]
fn a_smaller_table_forgets() {
    let mut decoder = Decoder::new();
    lines(&mut decoder, &bytes("40 01 61 01 62")).expect("it is in order");
    assert_eq!(lines(&mut decoder, &bytes("be")).as_deref(), Ok("a: b\n"));
    assert_eq!(lines(&mut decoder, &bytes("20 be")), Err(HpackError::Index));
    assert_eq!(lines(&mut decoder, &bytes("40 01 61 01 62")).as_deref(), Ok("a: b\n"));
    assert_eq!(decoder.table.bytes(), 0, "nothing is kept in a table of no size");
}
