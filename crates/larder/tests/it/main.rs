//! Scenarios: a scripted origin or a real php-fpm, the real `larder`, and clients.

mod cache;
mod config;
mod failures;
mod http1;
mod origins;
mod recipes;
mod reload;
mod serve;
mod site;
mod streams;
