//! What is counted of TLS handshakes.

use crate::stats::Counter;

/// Makes the counters of a worker and their sums of one list.
macro_rules! handshakes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The handshakes of one worker.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct TlsTraffic {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The handshakes of all workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TlsSums {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl TlsSums {
            /// Adds those of a worker.
            pub fn add(&mut self, traffic: &TlsTraffic) {
                $(self.$name += traffic.$name.get();)*
            }
        }
    };
}

handshakes! {
    /// That were complete.
    done,
    /// That resumed a session.
    resumed,
    /// That failed, for these reasons and others.
    failed,
    /// As there is no version of TLS that both speak.
    no_protocol,
    /// As there is no cipher suite that both have.
    no_cipher,
    /// As they took too long.
    timed_out,
    /// As the client did not accept our certificate.
    certificate_refused,
    /// After which the client has shown no certificate, where one is required.
    without_certificate,
    /// After which the client's certificate is expired, or not valid yet.
    expired_certificates,
    /// After which it is revoked.
    revoked_certificates,
    /// After which it is not accepted for another reason.
    bad_certificates,
}
