//! Scenarios: a scripted origin or a real php-fpm, the real `larder`, and clients.

mod cache;
mod config;
mod failures;
mod http1;
mod line_breaks;
mod log_lines;
mod names;
mod origins;
mod recipes;
mod refetch;
mod refusals;
mod reload;
mod serve;
mod site;
mod streams;
mod tunnel;
