//! What a VCL may say that larder cannot do yet: it is refused when the VCL is loaded.

use larder_conf::Diagnostic;
use larder_vcl::policy::Place;
use larder_vcl::program::{At, Op, Program};
use larder_vcl::vars::Variable;

/// Variables that can be set there and do nothing here, though a site would miss it.
const VARIABLES: [(Variable, &str); 2] = [
    (Variable::ReqFilters, "bodies of requests are kept and sent as they came"),
    (Variable::BereqFilters, "bodies of requests are sent as they came"),
];

/// All that a VCL says and larder cannot do, each with its place and the mend.
pub fn errors(program: &Program) -> Vec<Diagnostic> {
    let code = program.code().iter().enumerate();
    let found = code.filter_map(|(at, op)| Some((at as At, unbuilt(op)?)));
    found
        .map(|(at, (what, mend))| {
            let error = Diagnostic::error(format!("{what} is not built yet")).help(mend);
            *match program.place_of(at) {
                Some(place) => error.at(place),
                None => error,
            }
        })
        .collect()
}

fn unbuilt(op: &Op) -> Option<(String, &'static str)> {
    match op {
        Op::Set(Place::Variable(variable)) => {
            let (_, mend) = VARIABLES.iter().find(|(own, _)| own == variable)?;
            Some((format!("set {}", variable.rule().name), mend))
        }
        _ => None,
    }
}
