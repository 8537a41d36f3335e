//! The smaller modules of nginx: what they know about browsers, referers and folders, without a request.

pub mod browser;
pub mod random_index;
pub mod referer;
