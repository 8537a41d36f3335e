use super::*;

/// What a page holds that comes in pieces of `bytes`: text as it is, includes in brackets; and its findings.
fn read(page: &[u8], bytes: usize, rules: Rules) -> (String, Findings) {
    let mut parser = Parser::new(rules);
    let mut events = Vec::new();
    for piece in page.chunks(bytes.max(1)) {
        parser.feed(&Bytes::copy_from_slice(piece), &mut events);
    }
    let findings = parser.finish(&mut events);
    let mut out = String::new();
    for event in events {
        match event {
            Event::Text(bytes) => out.push_str(&bytes.escape_ascii().to_string()),
            Event::Include(include) => out.push_str(&format!("[{}]", shown(&include))),
        }
    }
    (out, findings)
}

fn shown(Include { host, path, goes_on, alt, .. }: &Include) -> String {
    let host = host.as_ref().map_or(String::new(), |host| format!("{}|", host.escape_ascii()));
    let alt = alt.as_ref().map_or(String::new(), |alt| format!(" or {}", shown(alt)));
    format!("{host}{}{}{alt}", path.escape_ascii(), if *goes_on { " continue" } else { "" })
}

/// Checks what a page holds, however it is cut, and how much of it is broken.
fn check(page: &[u8], rules: Rules, expected: &str, faults: u64) {
    for bytes in 1..=page.len().max(1) {
        let (out, findings) = read(page, bytes, rules);
        let page = page.escape_ascii();
        assert_eq!((&out[..], findings.faults), (expected, faults), "{page} in pieces of {bytes}: {findings:?}");
    }
}

/// Rules with which any page is read.
const ANY: Rules = Rules { reads_any: true, reads_tags: false, takes_https: false, removes_bom: false, is_full: false };

#[test]
fn elements_are_found_however_the_page_is_cut() {
    for (page, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("a<esi:include src=\"/b\"/>c", "a[/b]c"),
        ("a<esi:include src='/b'/>c", "a[/b]c"),
        ("a<esi:include src=/b />c", "a[/b]c"),
        ("<esi:include src=\"/b\">c", "[/b]c"),
        ("<esi:include\tsrc='/b' alt='/d'\nonerror='continue'/>", "[/b continue or /d]"),
        ("<esi:include alt=\"http://h/d?x&amp;y\" src='/b'/>", "[/b or h|/d?x&y]"),
        ("<esi:include src='/b' alt=''/>", "[/b]"),
        ("<esi:include src='/b' alt='https://h/d'/>", "[/b]"),
        ("<esi:include onerror=\"continue\" src=\"b?c\" />", "[b?c continue]"),
        ("<esi:include src=\"/b\" onerror=\"abort\"/>", "[/b]"),
        ("<esi:include src=\"/b\"alt=\"c\"/>", "[/b or c]"),
        ("<esi:include novalue src=\"/b\"/>", "[/b]"),
        ("<esi:include src=\"http://h:1/b\"/>", "[h:1|/b]"),
        ("<esi:include src=\"/b?x=1&amp;y=&lt;&gt;&quot;&apos;&nbsp;&\"/>", "[/b?x=1&y=<>\\\"\\'&nbsp;&]"),
        ("<esi:include src=\"/b?&amp;lt;\"/>", "[/b?&lt;]"),
        ("a<esi:remove>b<i>c</i><!-- d --><![CDATA[e]]></esi:remove>f", "af"),
        ("a<esi:remove >b</esi:remove\n>f", "af"),
        ("a<esi:remove>b", "a"),
        ("a<esi:comment text=\"x\"/>b", "ab"),
        ("a<!--esi b -->c", "a b c"),
        ("a<!--esi <esi:include src='/b'/>-->c", "a [/b]c"),
        ("a<!--esi b ---->c", "a b --c"),
        ("a<!--esi b - -- > ->c-->d", "a b - -- > ->cd"),
        ("a<!--esi b<i>-->c-->", "a b<i>c-->"),
        ("a<!--esi <!-- b --> c -->d", "a <!-- b --> c -->d"),
        ("a<!-- <esi:include src='/b'/> -->c", "a<!-- <esi:include src=\\'/b\\'/> -->c"),
        ("<!-- --- -->a<esi:include src='/b'/>", "<!-- --- -->a[/b]"),
        ("<!---->a<esi:include src='/b'/>", "<!---->a[/b]"),
        ("a<![CDATA[<esi:remove>]] > ]]]>b<esi:comment/>", "a<![CDATA[<esi:remove>]] > ]]]>b"),
        ("<a href=\"<esi:include src='/b'/>\">", "<a href=\\\"<esi:include src=\\'/b\\'/>\\\">"),
        ("a < b<c>", "a < b<c>"),
        ("a<esi:include src='/b'/><<esi:include src='/c'/>d", "a[/b]<<esi:include src=\\'/c\\'/>d"),
    ] {
        check(page.as_bytes(), ANY, expected, 0);
    }
}

#[test]
fn what_is_broken_is_left_out_and_counted() {
    for (page, expected) in [
        ("a<esi:include/>b", "ab"),
        ("a<esi:include src/>b", "ab"),
        ("a<esi:include src=>b", "ab"),
        ("a<esi:include src= \"/b\"/>c", "ac"),
        ("a<esi:include src =\"/b\"/>c", "ac"),
        ("a<esi:include src=\"\"/>c", "ac"),
        ("a<esi:include src=/b/>c", "ac"),
        ("a<esi:include src=\"/b>c", "ac"),
        ("a<esi:include src=\"/b>c\"/>d", "ac\\\"/>d"),
        ("a<esi:include src=\"/b c\"/>d", "ad"),
        ("a<esi:include src=\"/b\x01c\"/>d", "ad"),
        ("a<esi:include src=\"/b\" src=\"/c\"/>d", "ad"),
        ("a<esi:include src=\"/b\"/ >c", "ac"),
        ("a<esi:include src=\"/b\" 1=\"2\"/>c", "ac"),
        ("a<esi:include src=\"/b\" x!=\"2\"/>c", "ac"),
        ("a<esi:includes src=\"/b\"/>c", "ac"),
        ("a<esi:include,src=\"/b\"/>c", "ac"),
        ("a<esi:include src=\"http://h\"/>c", "ac"),
        ("a<esi:include src=\"https://h/b\"/>c", "ac"),
        ("a</esi:include>b", "ab"),
        ("a<esi:remove/>b", "ab"),
        ("a</esi:remove>b", "ab"),
        ("a<esi:remove>b<esi:remove>c</esi:remove>d", "ad"),
        ("a<esi:remove>b<esi:include src='/c'/></esi:remove>d", "ad"),
        ("a<esi:remove>b<esi:comment/></esi:remove>d", "ad"),
        ("a<esi:remove>b<!--esi c --></esi:remove>d", "ad"),
        ("a<esi:comment>b", "ab"),
        ("a</esi:comment>b", "ab"),
        ("a<esi:vars>b", "ab"),
        ("a<esi:try", "a"),
        ("a<esi:include src=\"/b", "a"),
        ("a<es", "a<es"),
        ("a<!-- b", "a<!-- b"),
        ("<!---><esi:include src='/b'/>", "<!---><esi:include src=\\'/b\\'/>"),
        ("a<!-", "a<!-"),
        ("a<b", "a<b"),
    ] {
        check(page.as_bytes(), ANY, expected, 1);
    }
}

#[test]
fn a_page_is_read_if_its_first_tag_comes_first() {
    let tag = "<esi:include src='/b'/>";
    let shown = tag.replace('\'', "\\'");
    let rules = Rules::default();
    check(format!(" \r\n\t{tag}").as_bytes(), rules, " \\r\\n\\t[/b]", 0);
    check(format!("a{tag}").as_bytes(), rules, &format!("a{shown}"), 1);
    check(b" \n", rules, " \\n", 0);
    let bom = format!("\u{feff}{tag}");
    check(bom.as_bytes(), rules, &format!("\\xef\\xbb\\xbf{shown}"), 1);
    let removes = Rules { removes_bom: true, ..rules };
    check(bom.as_bytes(), removes, "[/b]", 0);
    check(&[VARNISH_BOM, tag.as_bytes()].concat(), removes, "[/b]", 0);
    check(b"\xef\xbb", removes, "\\xef\\xbb", 0);
    check(b"\xef\xbb<a>", removes, "\\xef\\xbb<a>", 1);
    check(tag.as_bytes(), removes, "[/b]", 0);
}

#[test]
fn features_change_what_is_read() {
    let tags = Rules { reads_tags: true, ..ANY };
    check(b"<a href='<esi:include src='/b'/>'><f<esi?<!x", tags, "<a href=\\'[/b]\\'><f<esi?<!x", 0);
    let https = Rules { takes_https: true, ..ANY };
    check(b"<esi:include src='https://h/b'/>", https, "[h|/b]", 0);
}

#[test]
fn it_is_known_whether_there_was_any_esi() {
    for (page, has_esi) in [
        ("<a>", false),
        ("<a><!-- <esi:remove> --></a>", false),
        ("<a><!--esi b", false),
        ("<a><!--esi b -->", true),
        ("<esi:comment/>", true),
        ("<esi:bogus>", true),
        ("a<esi:comment/>", false),
    ] {
        let page = Bytes::copy_from_slice(page.as_bytes());
        assert_eq!(look(&page, Rules::default()).has_esi, has_esi, "{page:?}");
    }
}

/// Bytes that are made of the pieces of ESI in any order, with noise between them.
fn noise(seed: u64, pieces: usize) -> Vec<u8> {
    const WORDS: [&[u8]; 24] = [
        b"<",
        b">",
        b"-",
        b"--",
        b"-->",
        b"<!--",
        b"<!--esi",
        b"<!---->",
        b"<![CDATA[",
        b"]]>",
        b"]",
        b"/",
        b"\"",
        b"'",
        b" ",
        b"=",
        b"<esi:",
        b"</esi:",
        b"<esi:include",
        b" src=",
        b"'/a&amp;b'",
        b"<esi:remove>",
        b"</esi:remove>",
        b"\xff",
    ];
    let mut state = seed;
    let mut out = Vec::new();
    for _ in 0..pieces {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(WORDS[(state >> 33) as usize % WORDS.len()]);
    }
    out
}

#[test]
fn any_bytes_are_read_the_same_in_any_pieces() {
    for seed in 0..400 {
        let page = noise(seed, 40);
        for rules in [Rules::default(), ANY, Rules { reads_tags: true, removes_bom: true, ..ANY }] {
            let whole = read(&page, page.len(), rules);
            for bytes in [1, 2, 3, 5, 8, 13] {
                assert_eq!(read(&page, bytes, rules), whole, "{} in pieces of {bytes}", page.escape_ascii());
            }
        }
    }
}

#[test]
fn a_value_that_does_not_end_takes_no_more_memory_than_it_may() {
    let mut page = b"<esi:include src=\"".to_vec();
    page.resize(page.len() + 100_000, b'x');
    let mut parser = Parser::new(Rules::default());
    parser.feed(&page.into(), &mut Vec::new());
    assert_eq!(parser.findings.first_fault, Some("a value that is too long"));
}

#[test]
fn branches_of_which_nobody_decides_are_left_out_where_the_rules_say_so() {
    let hides = Rules { is_full: true, ..ANY };
    let choose = "a<esi:choose><esi:when test=\"x\">b<esi:include src='/b'/></esi:when><esi:otherwise>c</esi:otherwise>\
                  </esi:choose>d";
    let tried =
        "a<esi:try><esi:attempt>b</esi:attempt><esi:except>c<esi:choose>d</esi:choose>e</esi:except></esi:try>f";
    for (page, shown, hidden, faults) in [
        (choose, "ab[/b]cd", "ad", [6, 6]),
        (tried, "abcdef", "abf", [8, 8]),
        ("a<esi:inline name='/x'>b</esi:inline>c", "abc", "ac", [2, 2]),
        ("a<esi:choose/>b", "ab", "ab", [1, 1]),
        ("a</esi:choose>b<esi:except>c", "abc", "ab", [2, 2]),
    ] {
        check(page.as_bytes(), ANY, shown, faults[0]);
        check(page.as_bytes(), hides, hidden, faults[1]);
    }
}
