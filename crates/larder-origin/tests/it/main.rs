//! Fetches from scripted origins.

mod connect;
mod fastcgi;
mod gate;
mod http;
mod origin;
mod pool;
mod retry;
mod tls;
mod workers;
