//! The smaller modules of nginx: variables and fields of their own, compiled once for each location.

pub mod browser;
pub mod random_index;
pub mod referer;
pub mod secure_link;
pub mod userid;
