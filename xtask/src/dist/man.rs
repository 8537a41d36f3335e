//! Manual pages, made of the pages in `docs/`: what is true there is true here.
//!
//! Source of the macros: `man(7)`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::VERSION;
use super::error::{DistError, io_at};

/// A manual page.
pub struct Page {
    /// Its name, and the section of the manual.
    pub name: &'static str,
    pub section: u8,
    /// One line for `apropos`.
    about: &'static str,
    /// The page in `docs/`.
    source: &'static str,
}

/// All of them.
pub const PAGES: &[Page] = &[
    page("larder", 8, "web server and page cache for PHP sites", "command-line.md"),
    page("larder-serve", 8, "serve a PHP site without a configuration", "serve.md"),
    page("larder.conf", 5, "the configuration of larder", "configuration.md"),
    page("larder-directives", 5, "the directives of larder's configuration", "directives.md"),
    page("larder-variables", 5, "the variables of larder's configuration", "variables.md"),
    page("larder-vcl", 7, "VCL in larder", "vcl.md"),
    page("larder-caching", 7, "what larder caches, and how long", "caching.md"),
    page("larder-purging", 7, "how pages leave larder's cache", "purging.md"),
    page("larder-why", 7, "why a page was no hit", "why.md"),
    page("larder-doctor", 8, "what on a machine will hurt, and what mends it", "doctor.md"),
    page("larder-import", 8, "what of a machine's nginx or Varnish works with larder", "import.md"),
    page("larder-shadow", 8, "try larder beside the running server", "shadow.md"),
    page("larder-process", 7, "processes, signals and logs of larder", "process.md"),
    page("larder-troubleshooting", 7, "when larder does not do what it should", "troubleshooting.md"),
];

const fn page(name: &'static str, section: u8, about: &'static str, source: &'static str) -> Page {
    Page { name, section, about, source }
}

/// The text of a page.
pub fn written(root: &Path, page: &Page) -> Result<String, DistError> {
    let from = root.join("docs").join(page.source);
    let source = fs::read_to_string(&from).map_err(io_at(&from))?;
    let mut text = format!(
        ".TH {} {} \"\" \"larder {VERSION}\" \"larder\"\n.SH NAME\n{} \\- {}\n",
        page.name.to_uppercase(),
        page.section,
        page.name,
        page.about
    );
    let mut roff = Roff { text: &mut text, cell: None, is_left_out: false, at_line_start: true };
    for event in Parser::new_ext(&source, Options::ENABLE_TABLES) {
        roff.take(event);
    }
    text.push('\n');
    others(page, &mut text);
    Ok(text)
}

/// Where to read on.
fn others(page: &Page, text: &mut String) {
    text.push_str(".SH SEE ALSO\n");
    let others: Vec<String> = PAGES
        .iter()
        .filter(|other| other.name != page.name)
        .map(|other| format!(".BR {} ({})", other.name.replace('-', "\\-"), other.section))
        .collect();
    text.push_str(&others.join(",\n"));
    text.push_str("\n.PP\nAll of the documentation is in /usr/share/doc/larder.\n");
}

/// A page that is being written.
struct Roff<'a> {
    text: &'a mut String,
    /// In a row of a table: the number of the cell.
    cell: Option<usize>,
    /// In the head of a table.
    is_left_out: bool,
    /// A dot or a quote here would be a macro.
    at_line_start: bool,
}

impl Roff<'_> {
    fn take(&mut self, event: Event<'_>) {
        match event {
            // The title is the page's name.
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => self.on_own_line(".SH DESCRIPTION\n.I "),
            Event::Start(Tag::Heading { level: HeadingLevel::H2, .. }) => self.on_own_line(".SH "),
            Event::Start(Tag::Heading { .. }) => self.on_own_line(".SS "),
            Event::End(TagEnd::Heading(_) | TagEnd::Paragraph | TagEnd::Item) => self.end_line(),
            Event::Start(Tag::Paragraph) if self.text.ends_with(".IP \\(bu 2\n") => {}
            Event::Start(Tag::Paragraph) => self.on_own_line(".PP\n"),
            Event::Start(Tag::CodeBlock(_)) => self.on_own_line(".PP\n.RS 4\n.nf\n"),
            Event::End(TagEnd::CodeBlock) => self.on_own_line(".fi\n.RE\n"),
            Event::Start(Tag::Item) => self.on_own_line(".IP \\(bu 2\n"),
            // A row is a term with what is told of it; what the columns are called goes without saying.
            Event::Start(Tag::TableHead) => self.is_left_out = true,
            Event::End(TagEnd::TableHead) => self.is_left_out = false,
            _ if self.is_left_out => {}
            Event::Start(Tag::TableRow) => {
                self.cell = Some(0);
                self.on_own_line(".TP\n");
            }
            Event::Start(Tag::TableCell) => self.begin_cell(),
            Event::End(TagEnd::TableCell) => self.end_cell(),
            Event::End(TagEnd::TableRow) => {
                self.cell = None;
                self.end_line();
            }
            Event::Start(Tag::Strong) => self.raw("\\fB"),
            Event::Start(Tag::Emphasis) => self.raw("\\fI"),
            Event::End(TagEnd::Strong | TagEnd::Emphasis) => self.raw("\\fR"),
            Event::Code(code) => {
                self.raw("\\fB");
                self.words(&code);
                self.raw("\\fR");
            }
            Event::Text(text) => self.words(&text),
            Event::SoftBreak => self.raw(" "),
            Event::HardBreak => self.on_own_line(".br\n"),
            _ => {}
        }
    }

    fn begin_cell(&mut self) {
        match self.cell {
            Some(0) => self.raw("\\fB"),
            Some(1) | None => {}
            Some(_) => self.raw(" \\(en "),
        }
    }

    fn end_cell(&mut self) {
        if self.cell == Some(0) {
            self.raw("\\fR");
            self.end_line();
        }
        self.cell = self.cell.map(|number| number + 1);
    }

    /// Writes a macro.
    fn on_own_line(&mut self, macro_text: &str) {
        self.end_line();
        self.text.push_str(macro_text);
        self.at_line_start = macro_text.ends_with('\n');
    }

    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.at_line_start = true;
    }

    /// Writes what roff is to understand.
    fn raw(&mut self, roff: &str) {
        self.text.push_str(roff);
        self.at_line_start = false;
    }

    /// Writes what a reader is to see.
    fn words(&mut self, words: &str) {
        for line in words.split_inclusive('\n') {
            if self.at_line_start && line.starts_with(['.', '\'']) {
                self.text.push_str("\\&");
            }
            for letter in line.chars() {
                match letter {
                    '\\' => self.text.push_str("\\e"),
                    '-' => self.text.push_str("\\-"),
                    '\'' => self.text.push_str("\\(aq"),
                    '`' => self.text.push_str("\\(ga"),
                    '^' => self.text.push_str("\\(ha"),
                    '~' => self.text.push_str("\\(ti"),
                    ascii if ascii.is_ascii() => self.text.push(ascii),
                    other => {
                        let _ = write!(self.text, "\\[u{:04X}]", u32::from(other));
                    }
                }
            }
            self.at_line_start = line.ends_with('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roff(markdown: &str) -> String {
        let mut text = String::new();
        let mut roff = Roff { text: &mut text, cell: None, is_left_out: false, at_line_start: true };
        Parser::new_ext(markdown, Options::ENABLE_TABLES).for_each(|event| roff.take(event));
        text
    }

    #[test]
    fn what_a_reader_sees_is_no_macro() {
        assert_eq!(roff("```sh\n.hidden \\ 'a'\n```\n"), ".PP\n.RS 4\n.nf\n\\&.hidden \\e \\(aqa\\(aq\n.fi\n.RE\n");
        assert_eq!(roff("a `-t` \u{e9}"), ".PP\na \\fB\\-t\\fR \\[u00E9]\n");
    }

    #[test]
    fn a_row_is_a_term() {
        let table = "| option | what |\n| - | - |\n| `-t` | tests |\n";
        assert_eq!(roff(table), ".TP\n\\fB\\fB\\-t\\fR\\fR\ntests\n");
    }

    #[test]
    fn headings_and_lists() {
        assert_eq!(roff("# A\n\n## B\n\n- c\n- d\n"), ".SH DESCRIPTION\n.I A\n.SH B\n.IP \\(bu 2\nc\n.IP \\(bu 2\nd\n");
    }
}
