//! Scenarios: a scripted origin or a real php-fpm, the real `larder`, and clients.

mod acme;
mod cache;
mod compression;
mod config;
mod failures;
mod http1;
mod http2;
mod http2_attacks;
mod line_breaks;
mod log_lines;
mod names;
mod origin_tls;
mod origins;
mod recipes;
mod refetch;
mod refusals;
mod relay;
mod reload;
mod serve;
mod site;
mod streams;
mod tls;
mod tls_clients;
mod tls_sessions;
mod tls_traffic;
mod tunnel;
