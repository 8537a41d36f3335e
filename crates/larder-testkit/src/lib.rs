//! Scripted origins, clients and servers, for tests only.
//!
//! A test has three parts: an [`Origin`] or [`FastCgiOrigin`] that answers from a script and records what it was
//! asked, a [`ServerUnderTest`] between, and a [`Client`] that sends exact bytes and reads exactly one response.
//! Everything blocks and runs on threads, so that a test reads from top to bottom and shares no machinery with the
//! server it tests. Nothing here sleeps to order events: answers are held and released, and arrivals are waited
//! for. Every wait ends after [`PATIENCE`], which only guards against hanging.
#![forbid(unsafe_code)]

mod browser;
mod by_hand;
mod certificates;
mod client;
mod coding;
mod fastcgi;
mod film;
mod folder;
mod front;
mod http2;
mod json;
mod names;
mod origin;
mod php;
mod ports;
mod raise;
mod redis;
mod script;
mod server;
mod stream;
mod tls;
mod wire;

use std::time::Duration;

pub use browser::Browser;
pub use by_hand::{HandConnection, HandOrigin};
pub use certificates::{Certificate, Certificates, KeyKind, Lifetime};
pub use client::{Client, ClientError, Framing, Response};
pub use coding::{gzipped, unpacked, unpacked_whole};
pub use fastcgi::{FastCgiEnd, FastCgiOrigin, FastCgiReply, FastCgiSeen};
pub use film::{Film, Layout, Sample, Track, atom};
pub use folder::Folder;
pub use front::{Front, FrontOptions, FrontSeen};
pub use http2::{
    Frame, FrameKind, Http2Client, Http2End, Http2Error, Http2Exchange, Http2Options, Http2Request, RawAnswer, RawEnd,
    RawHttp2, request_block,
};
pub use json::Json;
pub use names::{NameServer, Says};
pub use origin::{Answer, Origin, OriginSeen, Then};
pub use php::{PhpFpm, PhpFpmOptions};
pub use ports::free_port;
pub use raise::RaiseOnDrop;
pub use redis::Redis;
pub use script::{Hold, Route};
pub use server::{ServerUnderTest, Signal, StartError, children_of, end_of, is_running, signal_to};
pub use tls::{Tls, TlsFacts};
pub use wire::text_of;

/// How long anything may take before a test fails: far longer than a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);
