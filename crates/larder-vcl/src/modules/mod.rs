//! What the functions of the modules do, as far as they need nothing but their arguments.

pub mod std;
