//! All variables: one table.

use crate::ast::Version;
use crate::steps::{Step, Steps};
use crate::types::Type;

/// When a variable exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// In all versions of VCL.
    All,
    /// Until VCL 4.0.
    Until40,
    /// From VCL 4.1 on.
    From41,
    /// In all versions, but it can be set until VCL 4.0 only.
    SetUntil40,
}

/// What is known of a variable, or of the headers of a message.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name; that of headers ends with `.http`.
    pub name: &'static str,
    /// The type of its value.
    pub ty: Type,
    /// In which subs it can be read.
    pub read: Steps,
    /// In which subs it can be set.
    pub set: Steps,
    /// In which subs it can be unset.
    pub unset: Steps,
    /// In which versions it is there.
    pub since: Since,
    /// What it is.
    pub what: &'static str,
}

impl Rule {
    /// Whether a version of VCL has it.
    pub fn is_in(&self, version: Version) -> bool {
        match self.since {
            Since::All | Since::SetUntil40 => true,
            Since::Until40 => version == Version::V40,
            Since::From41 => version == Version::V41,
        }
    }

    /// In which subs a VCL of this version can set it.
    pub fn set_in(&self, version: Version) -> Steps {
        match (self.since, version) {
            (Since::SetUntil40, Version::V41) => Steps::NONE,
            (Since::All | Since::Until40 | Since::From41, _) | (Since::SetUntil40, Version::V40) => self.set,
        }
    }
}

const NO: Steps = Steps::NONE;
const ALL: Steps = Steps::ALL;
const C: Steps = Steps::CLIENT;
const B: Steps = Steps::BACKEND;
const CB: Steps = C.or(B);
const RECV: Steps = Steps::of(Step::Recv);
const PIPE: Steps = Steps::of(Step::Pipe);
const PB: Steps = PIPE.or(B);
const HIT: Steps = Steps::of(Step::Hit);
const DELIVER: Steps = Steps::of(Step::Deliver);
const SYNTH: Steps = Steps::of(Step::Synth);
const REPLY: Steps = DELIVER.or(SYNTH);
const HIT_DELIVER: Steps = HIT.or(DELIVER);
const HITPASS: Steps = REPLY.or(Steps::of(Step::Pass));
const HITMISS: Steps = HITPASS.or(Steps::of(Step::Miss));
/// Where the key is complete.
const KEYED: Steps = HITMISS.or(HIT).or(PIPE).or(Steps::of(Step::Purge));
const FETCH: Steps = Steps::of(Step::BackendFetch);
const REFRESH: Steps = Steps::of(Step::BackendRefresh);
const RESPONSE: Steps = Steps::of(Step::BackendResponse);
const ERROR: Steps = Steps::of(Step::BackendError);
const ANSWER: Steps = RESPONSE.or(ERROR).or(REFRESH);

/// Makes an enum and a table of the same rows: the variable, its name, its type, where it can be read, set and unset,
/// the versions that have it, and what it is.
macro_rules! table {
    ($(#[$about:meta])* $kind:ident $table:ident:
     $($id:ident $name:literal $ty:ident $read:ident $set:ident $unset:ident $since:ident $what:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind {
            $(#[doc = concat!("`", $name, "`: ", $what, ".")] $id,)*
        }

        const $table: &[($kind, Rule)] = &[$((
            $kind::$id,
            Rule {
                name: $name, ty: Type::$ty, read: $read, set: $set, unset: $unset, since: Since::$since, what: $what,
            },
        ),)*];

        impl $kind {
            /// All, in the order of the table.
            pub fn all() -> impl Iterator<Item = Self> {
                $table.iter().map(|(own, _)| *own)
            }

            /// What is known of it.
            pub fn rule(self) -> &'static Rule {
                &$table[self as usize].1
            }
        }
    };
}

table! {
    /// A variable.
    Variable VARIABLES:
    ClientIdentity "client.identity" String CB C NO All
        "who asks, for balancing by client; the address unless it was set";
    ClientIp "client.ip" Ip CB NO NO All "the address of the client, as the PROXY protocol tells it if it does";
    ServerHostname "server.hostname" String ALL NO NO All "the name of the machine";
    ServerIdentity "server.identity" String ALL NO NO All "the name of this server";
    ServerIp "server.ip" Ip CB NO NO All
        "the address that the client connected to, as the PROXY protocol tells it if it does";
    RemoteIp "remote.ip" Ip CB NO NO All "the address of the peer, which may be a proxy";
    LocalEndpoint "local.endpoint" String CB NO NO From41 "the address that the listener was given";
    LocalIp "local.ip" Ip CB NO NO All "the own address of the connection";
    LocalSocket "local.socket" String CB NO NO From41 "the name of the listener";
    Req "req" Http C NO NO All "the request";
    ReqBackendHint "req.backend_hint" Backend C C NO All "the backend or director to ask if there is a fetch";
    ReqCanGzip "req.can_gzip" Bool C NO NO All "whether the client takes gzip";
    ReqEsi "req.esi" Bool C C NO Until40 "whether ESI is done for this request";
    ReqEsiLevel "req.esi_level" Int C NO NO All "how many ESI includes deep the request is";
    ReqFilters "req.filters" String RECV RECV NO All "the filters that the body of the request goes through";
    ReqGrace "req.grace" Duration C C C All "the longest grace that is accepted; -1 if unset";
    ReqHash "req.hash" Blob KEYED NO NO All "the key, once it is complete";
    ReqHashAlwaysMiss "req.hash_always_miss" Bool C C NO All "whether to miss even if there is a page";
    ReqHashIgnoreBusy "req.hash_ignore_busy" Bool C C NO All "whether to pass by pages that are being fetched";
    ReqHashIgnoreVary "req.hash_ignore_vary" Bool C C NO All "whether any variant will do";
    ReqIsHitmiss "req.is_hitmiss" Bool HITMISS NO NO All "whether a hit-for-miss was found";
    ReqIsHitpass "req.is_hitpass" Bool HITPASS NO NO All "whether a hit-for-pass was found";
    ReqMethod "req.method" String C C NO All "the method";
    ReqProto "req.proto" String C C NO SetUntil40 "the version of HTTP of the client";
    ReqRestarts "req.restarts" Int C NO NO All "how often the request was restarted";
    ReqStorage "req.storage" Stevedore C C NO All "where the body of the request is kept";
    ReqTime "req.time" Time C NO NO All "when the request was there";
    ReqTrace "req.trace" Bool C C NO All "whether the steps of this request are logged";
    ReqTransport "req.transport" String C NO NO All "how the request came, such as HTTP/1";
    ReqMaxAge "req.max_age" Duration C C C All "the greatest age that is accepted; -1 if unset";
    ReqTtl "req.ttl" Duration C C C All "the older name of req.max_age";
    ReqUrl "req.url" String C C NO All "the path with the query";
    ReqXid "req.xid" Int C NO NO All "the number of the request";
    ReqTopMethod "req_top.method" String C NO NO All "the method of the request at the top of the ESI includes";
    ReqTopProto "req_top.proto" String C NO NO All "its version of HTTP";
    ReqTopTime "req_top.time" Time C NO NO All "when it was there";
    ReqTopUrl "req_top.url" String C NO NO All "its path with the query";
    Bereq "bereq" Http B NO NO All "the request to the backend";
    BereqBackend "bereq.backend" Backend PB PB NO All "the backend or director that is asked";
    BereqBetweenBytesTimeout "bereq.between_bytes_timeout" Duration B B PB All
        "how long the backend may pause in an answer";
    BereqBody "bereq.body" Body NO NO FETCH All "the body that is sent to the backend";
    BereqConnectTimeout "bereq.connect_timeout" Duration PB PB PB All "how long connecting may take";
    BereqFilters "bereq.filters" String FETCH FETCH NO All
        "the filters that the body goes through on its way to the backend";
    BereqFirstByteTimeout "bereq.first_byte_timeout" Duration B B PB All
        "how long the backend may take to begin its answer";
    BereqHash "bereq.hash" Blob PB NO NO All "the key";
    BereqIsBgfetch "bereq.is_bgfetch" Bool B NO NO All "whether nobody waits for this fetch";
    BereqIsHitmiss "bereq.is_hitmiss" Bool B NO NO All "whether a hit-for-miss led to this fetch";
    BereqIsHitpass "bereq.is_hitpass" Bool B NO NO All "whether a hit-for-pass led to this fetch";
    BereqMethod "bereq.method" String PB PB NO All "the method";
    BereqProto "bereq.proto" String PB PB NO SetUntil40 "the version of HTTP";
    BereqRetries "bereq.retries" Int B NO NO All "how often the fetch was tried again";
    BereqRetryConnect "bereq.retry_connect" Bool B B NO All
        "whether a kept connection that fails is replaced by a new one";
    BereqTaskDeadline "bereq.task_deadline" Duration PIPE PIPE PIPE All "how long a pipe may last";
    BereqTime "bereq.time" Time PB NO NO All "when the request to the backend was made";
    BereqTrace "bereq.trace" Bool B B NO All "whether the steps of this fetch are logged";
    BereqUncacheable "bereq.uncacheable" Bool B NO NO All "whether the answer will not be stored";
    BereqUrl "bereq.url" String PB PB NO All "the path with the query";
    BereqXid "bereq.xid" Int PB NO NO All "the number of the fetch";
    Beresp "beresp" Http ANSWER NO NO All "the answer of the backend";
    BerespAge "beresp.age" Duration ANSWER NO NO All "its age";
    BerespBackend "beresp.backend" Backend ANSWER NO NO All "the backend that has answered";
    BerespBackendIp "beresp.backend.ip" Ip RESPONSE NO NO Until40 "its address";
    BerespBackendName "beresp.backend.name" String ANSWER NO NO All "its name";
    BerespBody "beresp.body" Body NO ERROR NO All "the body of an answer that is made here";
    BerespDoEsi "beresp.do_esi" Bool ANSWER ANSWER NO All "whether ESI is looked for in the body";
    BerespDoGunzip "beresp.do_gunzip" Bool ANSWER ANSWER NO All "whether the body is unpacked before it is stored";
    BerespDoGzip "beresp.do_gzip" Bool ANSWER ANSWER NO All "whether the body is packed before it is stored";
    BerespDoStream "beresp.do_stream" Bool ANSWER ANSWER NO All "whether clients get the body while it comes";
    BerespFilters "beresp.filters" String RESPONSE RESPONSE NO All "the filters that the body goes through";
    BerespGrace "beresp.grace" Duration ANSWER ANSWER NO All
        "how long it may be delivered stale while it is fetched again";
    BerespKeep "beresp.keep" Duration ANSWER ANSWER NO All "how long after that it stays to be revalidated";
    BerespProto "beresp.proto" String ANSWER ANSWER NO SetUntil40 "its version of HTTP";
    BerespReason "beresp.reason" String ANSWER ANSWER NO All "its reason phrase";
    BerespStatus "beresp.status" Int ANSWER ANSWER NO All "its status";
    BerespStorage "beresp.storage" Stevedore ANSWER ANSWER NO All "where it will be stored";
    BerespStorageHint "beresp.storage_hint" String ANSWER ANSWER NO Until40 "the name of where it will be stored";
    BerespTime "beresp.time" Time ANSWER NO NO All "when its head was there";
    BerespTransitBuffer "beresp.transit_buffer" Bytes RESPONSE RESPONSE NO All
        "how far a passed body may run ahead of its client";
    BerespTtl "beresp.ttl" Duration ANSWER ANSWER NO All "how long it is fresh";
    BerespUncacheable "beresp.uncacheable" Bool ANSWER ANSWER NO All "whether it is not stored";
    BerespWas304 "beresp.was_304" Bool ANSWER NO NO All "whether it is a stored page that a 304 has made fresh";
    ObjStaleAge "obj_stale.age" Duration REFRESH NO NO All "of the stale page: its age";
    ObjStaleCanEsi "obj_stale.can_esi" Bool REFRESH NO NO All "of the stale page: whether ESI was found in it";
    ObjStaleGrace "obj_stale.grace" Duration REFRESH NO NO All "of the stale page: its grace";
    ObjStaleHits "obj_stale.hits" Int REFRESH NO NO All "of the stale page: how often it was hit";
    ObjStaleKeep "obj_stale.keep" Duration REFRESH NO NO All "of the stale page: its keep";
    ObjStaleProto "obj_stale.proto" String REFRESH NO NO All "of the stale page: its version of HTTP";
    ObjStaleReason "obj_stale.reason" String REFRESH NO NO All "of the stale page: its reason phrase";
    ObjStaleStatus "obj_stale.status" Int REFRESH NO NO All "of the stale page: its status";
    ObjStaleStorage "obj_stale.storage" Stevedore REFRESH NO NO All "of the stale page: where it is stored";
    ObjStaleTime "obj_stale.time" Time REFRESH NO NO All "of the stale page: when the origin made it";
    ObjStaleTtl "obj_stale.ttl" Duration REFRESH NO NO All "of the stale page: how long it is fresh still";
    ObjStaleUncacheable "obj_stale.uncacheable" Bool REFRESH NO NO All
        "of the stale page: whether it is not a page but remembers to pass";
    ObjStaleIsValid "obj_stale.is_valid" Bool REFRESH NO NO All "of the stale page: whether it may still be used";
    ObjAge "obj.age" Duration HIT_DELIVER NO NO All "the page's age";
    ObjCanEsi "obj.can_esi" Bool HIT_DELIVER NO NO All "whether ESI was found in it";
    ObjGrace "obj.grace" Duration HIT_DELIVER NO NO All "the page's grace";
    ObjHits "obj.hits" Int HIT_DELIVER NO NO All "how often it was hit";
    ObjKeep "obj.keep" Duration HIT_DELIVER NO NO All "the page's keep";
    ObjProto "obj.proto" String HIT NO NO All "the page's version of HTTP";
    ObjReason "obj.reason" String HIT NO NO All "the page's reason phrase";
    ObjStatus "obj.status" Int HIT NO NO All "the page's status";
    ObjStorage "obj.storage" Stevedore HIT_DELIVER NO NO All "where it is stored";
    ObjTime "obj.time" Time HIT_DELIVER NO NO All "when the origin made it";
    ObjTtl "obj.ttl" Duration HIT_DELIVER NO NO All "how long it is fresh still";
    ObjUncacheable "obj.uncacheable" Bool DELIVER NO NO All "whether it is not a page but remembers to pass";
    Resp "resp" Http REPLY NO NO All "the response to the client";
    RespBody "resp.body" Body NO SYNTH NO All "the body of a response that is made here";
    RespDoEsi "resp.do_esi" Bool REPLY REPLY NO From41 "whether ESI is done in this response";
    RespFilters "resp.filters" String REPLY REPLY NO All "the filters that the body goes through";
    RespIsStreaming "resp.is_streaming" Bool REPLY NO NO All "whether the body still comes from the backend";
    RespProto "resp.proto" String REPLY REPLY NO SetUntil40 "the version of HTTP";
    RespReason "resp.reason" String REPLY REPLY NO All "the reason phrase";
    RespStatus "resp.status" Int REPLY REPLY NO All "the status";
    RespTime "resp.time" Time REPLY NO NO All "when the response was begun";
    Now "now" Time ALL NO NO All "the time at which the sub was called";
    SessIdleSendTimeout "sess.idle_send_timeout" Duration C C C All
        "how long a write to the client may make no progress";
    SessSendTimeout "sess.send_timeout" Duration C C C All "how long sending a response may take";
    SessTimeoutIdle "sess.timeout_idle" Duration C C C All "how long the connection may be idle";
    SessTimeoutLinger "sess.timeout_linger" Duration C C C All "how long a worker waits for the next request";
    SessXid "sess.xid" Int CB NO NO From41 "the number of the connection";
    ParamBackendIdleTimeout "param.backend_idle_timeout" Duration ALL NO NO All "the parameter backend_idle_timeout";
    ParamBackendWaitLimit "param.backend_wait_limit" Int ALL NO NO All "the parameter backend_wait_limit";
    ParamBackendWaitTimeout "param.backend_wait_timeout" Duration ALL NO NO All "the parameter backend_wait_timeout";
    ParamBetweenBytesTimeout "param.between_bytes_timeout" Duration ALL NO NO All "the parameter between_bytes_timeout";
    ParamConnectTimeout "param.connect_timeout" Duration ALL NO NO All "the parameter connect_timeout";
    ParamDefaultGrace "param.default_grace" Duration ALL NO NO All "the parameter default_grace";
    ParamDefaultKeep "param.default_keep" Duration ALL NO NO All "the parameter default_keep";
    ParamDefaultTtl "param.default_ttl" Duration ALL NO NO All "the parameter default_ttl";
    ParamFirstByteTimeout "param.first_byte_timeout" Duration ALL NO NO All "the parameter first_byte_timeout";
    ParamIdleSendTimeout "param.idle_send_timeout" Duration ALL NO NO All "the parameter idle_send_timeout";
    ParamMaxEsiDepth "param.max_esi_depth" Int ALL NO NO All "the parameter max_esi_depth";
    ParamMaxRestarts "param.max_restarts" Int ALL NO NO All "the parameter max_restarts";
    ParamMaxRetries "param.max_retries" Int ALL NO NO All "the parameter max_retries";
    ParamPipeTaskDeadline "param.pipe_task_deadline" Duration ALL NO NO All "the parameter pipe_task_deadline";
    ParamPipeTimeout "param.pipe_timeout" Duration ALL NO NO All "the parameter pipe_timeout";
    ParamSendTimeout "param.send_timeout" Duration ALL NO NO All "the parameter send_timeout";
    ParamShortlived "param.shortlived" Duration ALL NO NO All "the parameter shortlived";
    ParamTimeoutIdle "param.timeout_idle" Duration ALL NO NO All "the parameter timeout_idle";
    ParamTransitBuffer "param.transit_buffer" Bytes ALL NO NO All "the parameter transit_buffer";
    ParamUncacheableTtl "param.uncacheable_ttl" Duration ALL NO NO All "the parameter uncacheable_ttl";
}

table! {
    /// A message whose headers are variables.
    Headers HEADERS:
    Req "req.http" Header C C C All "the headers of the request";
    ReqTop "req_top.http" Header C NO NO All "the headers of the request at the top of the ESI includes";
    Bereq "bereq.http" Header PB PB PB All "the headers of the request to the backend";
    Beresp "beresp.http" Header ANSWER ANSWER ANSWER All "the headers of the answer of the backend";
    ObjStale "obj_stale.http" Header REFRESH NO NO All "the headers of the stale page";
    Obj "obj.http" Header HIT NO NO All "the headers of the page";
    Resp "resp.http" Header REPLY REPLY REPLY All "the headers of the response";
}

impl Variable {
    /// The variable of this name, in whatever version.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|variable| variable.rule().name.eq_ignore_ascii_case(name))
    }
}

impl Headers {
    /// The message of these names, such as `req` and `http`.
    pub fn named(message: &str, http: &str) -> Option<Self> {
        let is_it = |name: &str| {
            name.split_once('.').is_some_and(|(own, _)| own.eq_ignore_ascii_case(message))
                && http.eq_ignore_ascii_case("http")
        };
        Self::all().find(|headers| is_it(headers.rule().name))
    }

    /// What is known of one header.
    ///
    /// Those that say where a body ends can be read only, as they have to fit the body.
    pub fn rule_of(self, header: &str) -> Rule {
        let rule = *self.rule();
        let is_framing = ["content-length", "transfer-encoding"].iter().any(|own| own.eq_ignore_ascii_case(header));
        if !is_framing || rule.set.is_empty() {
            return rule;
        }
        // Varnish does not offer them in vcl_pipe, where it does not read the body.
        let read = if self == Self::Bereq { B } else { rule.read };
        Rule { read, set: NO, unset: NO, ..rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_values_and_name_each_once() {
        for (at, variable) in Variable::all().enumerate() {
            assert_eq!(variable as usize, at);
            assert_eq!(Variable::named(variable.rule().name), Some(variable));
            assert!(!variable.rule().what.is_empty());
        }
        for (at, headers) in Headers::all().enumerate() {
            assert_eq!(headers as usize, at);
            let (message, http) = headers.rule().name.split_once('.').expect("it has two parts");
            assert_eq!(Headers::named(message, http), Some(headers));
        }
    }

    #[test]
    fn versions_decide_what_is_there_and_what_can_be_set() {
        let both = |variable: Variable| [Version::V40, Version::V41].map(|version| variable.rule().is_in(version));
        assert_eq!(both(Variable::ReqEsi), [true, false]);
        assert_eq!(both(Variable::RespDoEsi), [false, true]);
        assert_eq!(both(Variable::ReqProto), [true, true]);
        assert_eq!(Variable::ReqProto.rule().set_in(Version::V40), Steps::CLIENT);
        assert_eq!(Variable::ReqProto.rule().set_in(Version::V41), Steps::NONE);
    }

    #[test]
    fn headers_that_frame_a_body_are_read_only() {
        for (headers, name, can_be_set) in [
            (Headers::Req, "Content-Length", false),
            (Headers::Resp, "transfer-encoding", false),
            (Headers::Bereq, "content-length", false),
            (Headers::Bereq, "content-type", true),
            (Headers::Obj, "content-type", false),
        ] {
            assert_eq!(!headers.rule_of(name).set.is_empty(), can_be_set, "{headers:?} {name}");
        }
        assert!(!Headers::Bereq.rule_of("content-length").read.contains(Step::Pipe));
    }
}
