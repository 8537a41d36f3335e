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
            Event::Variable(_, Place::Text) => out.push('$'),
            Event::Variable(_, Place::Tag) => out.push_str("$$"),
            Event::Mark(Mark::When(None)) => out.push_str("{never "),
            Event::Mark(Mark::When(Some(_))) => out.push_str("{when "),
            Event::Mark(Mark::End) => out.push('}'),
            Event::Mark(mark) => out.push_str(&format!("{{{mark:?} ").to_lowercase()),
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
    const WORDS: [&[u8]; 31] = [
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
        b"<esi:vars>",
        b"</esi:vars>",
        b"<esi:choose>",
        b"<esi:when test='1==1'>",
        b"</esi:when>",
        b"$(HTTP_HOST)",
        b"$(",
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
        for rules in [Rules::default(), ANY, FULL, Rules { reads_tags: true, removes_bom: true, ..ANY }] {
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
    assert_eq!(parser.findings.first_fault.as_deref(), Some("a value that is too long"));
}

/// Rules of `larder_esi`.
const FULL: Rules = Rules { is_full: true, ..ANY };

#[test]
fn branches_and_attempts_are_marked_where_all_is_read() {
    let choose = "a<esi:choose> <esi:when test=\"1==1\">b<esi:include src='/b'/></esi:when>\n<esi:otherwise>c\
                  </esi:otherwise> </esi:choose>d";
    let tried =
        "a<esi:try><esi:attempt>b</esi:attempt><esi:except>c<esi:choose>d</esi:choose>e</esi:except></esi:try>f";
    for (page, full, varnish, faults) in [
        (choose, "a{choose {when b[/b]}{otherwise c}}d", "a b[/b]\\nc d", 6),
        (tried, "a{try {attempt b}{except c{choose }e}}f", "abcdef", 8),
        ("a<esi:choose/>b<esi:try/>", "a{choose }b{try }", "ab", 2),
        (
            "<esi:vars>$(HTTP_HOST)<i a='$(HTTP_HOST)'></esi:vars>$(HTTP_HOST)",
            "$<i a=\\'$$\\'>$(HTTP_HOST)",
            "$(HTTP_HOST)<i a=\\'$(HTTP_HOST)\\'>$(HTTP_HOST)",
            2,
        ),
        (
            "<esi:vars>$(HTTP_<esi:vars>HOST)</esi:vars>$(HTTP_HOST)</esi:vars>",
            "$(HTTP_HOST)$",
            "$(HTTP_HOST)$(HTTP_HOST)",
            4,
        ),
        (
            "<!--esi <p><esi:vars>Hello, $(HTTP_COOKIE{name})!</esi:vars></p>-->",
            " <p>Hello, $!</p>",
            " <p>Hello, $(HTTP_COOKIE{name})!</p>",
            2,
        ),
        (
            "<esi:choose><esi:when test='$(HTTP_COOKIE{a})>5 &amp; 1&lt;2'>b</esi:when></esi:choose>",
            "{choose {when b}}",
            "5 &amp; 1&lt;2\\'>b",
            4,
        ),
        ("<esi:CHOOSE><esi:When test=\"1==1\">b</esi:wHEN></esi:choose>", "{choose {when b}}", "b", 4),
    ] {
        check(page.as_bytes(), FULL, full, 0);
        check(page.as_bytes(), ANY, varnish, faults);
    }
}

#[test]
fn nothing_is_shown_that_stands_where_it_may_not() {
    for (page, expected, faults) in [
        ("a<esi:inline name='/x'>b<esi:when test='1==1'>c</esi:inline>d", "ad", 2),
        ("a<esi:inline name='/x' <b>c</esi:inline>d", "ad", 2),
        ("a<esi:when test='1==1'>b</esi:when><esi:otherwise>c</esi:otherwise>d", "ad", 2),
        ("a<esi:attempt>b</esi:attempt><esi:except>c</esi:except>d", "ad", 2),
        // A test that is none.
        ("<esi:choose><esi:when>b</esi:when></esi:choose>", "{choose {never b}}", 1),
        ("<esi:choose><esi:when test='1==1' test='1==1'>b</esi:when></esi:choose>", "{choose {never b}}", 2),
        ("<esi:choose><esi:when test='1'>b</esi:when></esi:choose>", "{choose {never b}}", 1),
        ("<esi:choose><esi:when test='$(HTTP_HOST'>b</esi:when></esi:choose>", "{choose {never b}}", 1),
        ("<esi:choose><esi:when test=1==1>b</esi:when></esi:choose>", "{choose {never b}}", 2),
        ("<esi:choose><esi:when,test='1==1'>b</esi:when></esi:choose>", "{choose {never b}}", 2),
        ("<esi:choose><esi:when test='1==1>b</esi:when></esi:choose>c", "{choose ", 2),
        // What is in a choose or a try itself.
        ("<esi:choose>a<esi:include src='/b'/><esi:vars>$(A)</esi:vars><esi:try/>c</esi:choose>", "{choose }", 3),
        ("<esi:try>a<esi:include src='/b'/><esi:choose/>c</esi:try>", "{try }", 2),
        (
            "<esi:choose><esi:otherwise>a</esi:otherwise><esi:when test='1==1'>b</esi:when>\
          <esi:otherwise>c</esi:otherwise></esi:choose>",
            "{choose {otherwise a}}",
            2,
        ),
        (
            "<esi:try><esi:except>a</esi:except><esi:attempt>b</esi:attempt><esi:attempt>c</esi:attempt>\
          <esi:except>d</esi:except></esi:try>",
            "{try {except a}{attempt b}}",
            2,
        ),
        // What does not end, or ends twice.
        ("<esi:choose><esi:when test='1==1'>a<esi:when test='1==2'>b</esi:choose>c", "{choose {when a}}c", 2),
        (
            "<esi:choose><esi:when test='1==2'>x<esi:when test='1==1'>y</esi:when>z</esi:when></esi:choose>",
            "{choose {when xz}}",
            1,
        ),
        (
            "<esi:choose><esi:otherwise>x<esi:when test='1==1'>y</esi:when></esi:otherwise></esi:choose>",
            "{choose {otherwise x}}",
            1,
        ),
        ("<esi:choose><esi:when test='1==1'>a<esi:vars>b</esi:when>c</esi:choose>d", "{choose {when ab}}d", 1),
        ("a<esi:choose><esi:when test='1==1'>b", "a{choose {when b}}", 1),
        ("a<esi:choose>b", "a{choose }", 1),
        ("a<esi:inline>b", "a", 2),
        ("a</esi:choose>b</esi:vars>", "ab", 2),
        ("<esi:try><esi:attempt>a<esi:except>b</esi:try>c", "{try {attempt a}}c", 2),
        ("a<esi:remove><esi:choose></esi:remove>b</esi:choose>", "ab", 2),
        (
            "<esi:choose><esi:when test='1==1'>a<esi:remove></esi:when></esi:remove>b</esi:choose>c",
            "{choose {when ab}}c",
            2,
        ),
        ("<esi:vars>$(NONE)$(", "$$(", 2),
    ] {
        let bytes = page.as_bytes();
        let (out, findings) = read(bytes, bytes.len(), FULL);
        let opened = expected.matches('{').count() - expected.matches('}').count();
        let expected = format!("{expected}{}", "}".repeat(opened));
        assert_eq!((&out[..], findings.faults), (&expected[..], faults), "{page}: {findings:?}");
        check(bytes, FULL, &expected, faults);
    }
}

#[test]
fn elements_that_lie_in_each_other_too_deep_are_left_out() {
    for name in ["vars", "choose", "try", "inline", "when test='1==1'", "attempt"] {
        let end = format!("</esi:{}>", name.split(' ').next().unwrap());
        let page = format!("a{}b{}c", format!("<esi:{name}>").repeat(1000), end.repeat(1000));
        let (out, findings) = read(page.as_bytes(), 4096, FULL);
        assert!(out.starts_with('a') && out.ends_with('c') && !out.contains('b'), "{name}: {out}");
        assert!(findings.faults >= 900, "{name}: {findings:?}");
    }
    let nested =
        format!("{}b{}", "<esi:choose><esi:when test='1==1'>".repeat(16), "</esi:when></esi:choose>".repeat(16));
    check(nested.as_bytes(), FULL, &format!("{}b{}", "{choose {when ".repeat(16), "}".repeat(32)), 0);
}

#[test]
fn a_test_of_a_megabyte_never_holds() {
    let page = format!("<esi:choose><esi:when test=\"{}\">b</esi:when></esi:choose>c", "1==1|".repeat(200_000));
    let (out, findings) = read(page.as_bytes(), 16 * 1024, FULL);
    assert_eq!(out, "{choose {never b}}c");
    assert_eq!(findings.first_fault.as_deref(), Some("a value that is too long"));
}

#[test]
fn it_is_known_whether_all_see_the_same() {
    for (page, has_variables) in [
        ("$(HTTP_HOST)<esi:include src='/a'/>", false),
        ("<esi:vars>$(x)</esi:vars><esi:try/>", false),
        ("<esi:vars>$(HTTP_HOST)</esi:vars>", true),
        ("<esi:include src='/$(HTTP_HOST)'/>", true),
        ("<esi:include src='/' alt='/$(HTTP_HOST)'/>", true),
        ("<esi:choose><esi:when test='$(HTTP_HOST)==a'/></esi:choose>", true),
        ("<esi:inline><esi:vars>$(HTTP_HOST)</esi:vars></esi:inline>", false),
    ] {
        let (_, findings) = read(page.as_bytes(), page.len(), FULL);
        assert_eq!(findings.has_variables, has_variables, "{page}");
    }
}

#[test]
fn a_variable_is_escaped_for_its_place_in_the_whole_page() {
    for (page, expected) in [
        ("<a b='x > y' c='<esi:vars>$(A)</esi:vars>'>", "<a b=\\'x > y\\' c=\\'$$\\'>"),
        ("<a b='>' c='</esi:vars><esi:vars>$(A)'>$(B)", "<a b=\\'>\\' c=\\'$$\\'>$"),
        ("<script>'<i>'<esi:vars>$(A)</esi:vars></script><esi:vars>$(A)", "<script>\\'<i>\\'$$</script>$"),
        // Not all see the quote.
        (
            "<a b='>'<esi:choose><esi:when test='1==1'>c='</esi:when><esi:otherwise>c='</esi:otherwise></esi:choose>>\
             <esi:vars>$(A)",
            "<a b=\\'>\\'{choose {when c=\\'}{otherwise c=\\'}}>$$",
        ),
        (
            "<esi:choose><esi:when test='1==1'><i>c</i></esi:when></esi:choose><esi:vars>$(A)",
            "{choose {when <i>c</i>}}$",
        ),
        // An include may bring one.
        ("<a b='>' c=<esi:include src='/c'/>><esi:vars>$(A)", "<a b=\\'>\\' c=[/c]>$$"),
        ("<i>a</i><esi:include src='/c'/><esi:vars>$(A)", "<i>a</i>[/c]$"),
    ] {
        for bytes in 1..=page.len() {
            assert_eq!(read(page.as_bytes(), bytes, FULL).0, expected, "{page} in pieces of {bytes}");
        }
    }
}

#[test]
fn an_include_says_where_in_the_page_it_stands() {
    let include = "<esi:include src='/c' alt='/d'/>";
    for (before, place) in [
        ("", Place::Text),
        ("<p>", Place::Text),
        ("<title>", Place::Text),
        ("<svg></svg>", Place::Text),
        ("<a b='x > ", Place::Tag),
        ("<script>f('", Place::Tag),
        ("<svg>", Place::Tag),
        ("<a b='x > <esi:include src='/c'/>'>", Place::Tag),
    ] {
        for rules in [ANY, FULL] {
            let (mut parser, mut events) = (Parser::new(rules), Vec::new());
            parser.feed(&Bytes::from(format!("{before}{include}")), &mut events);
            parser.finish(&mut events);
            let Some(Event::Include(include)) = events.last() else { panic!("{before}: {events:?}") };
            let alt = include.alt.as_ref().map(|alt| alt.place);
            assert_eq!((include.place, alt), (place, Some(place)), "{before} {rules:?}");
        }
    }
}

#[test]
fn a_fault_of_elements_in_each_other_names_the_element() {
    for (page, expected) in [
        ("<esi:inline>a</esi:inline>", "<esi:inline>, of which larder leaves the content out"),
        ("<esi:choose><esi:when test='1==1'>a</esi:choose>", "<esi:when> without its end"),
        ("<esi:try>", "<esi:try> without its end"),
        ("a</esi:vars>", "</esi:vars> without its beginning"),
    ] {
        assert_eq!(read(page.as_bytes(), page.len(), FULL).1.first_fault.as_deref(), Some(expected), "{page}");
    }
}
