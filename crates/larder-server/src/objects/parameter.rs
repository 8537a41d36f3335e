//! The parameters, as variables.

use larder_vcl::parameters::Parameters;
use larder_vcl::run::Value;
use larder_vcl::vars::Variable;

/// The value of a parameter. Those that mean nothing here have Varnish's defaults.
pub fn get(set: &Parameters, variable: Variable) -> Option<Value> {
    Some(match variable {
        Variable::ParamBackendIdleTimeout => Value::Real(60.0),
        Variable::ParamBackendWaitLimit => Value::Int(set.backend_wait_limit.into()),
        Variable::ParamBackendWaitTimeout => Value::Real(set.backend_wait_timeout),
        Variable::ParamBetweenBytesTimeout => Value::Real(set.between_bytes_timeout),
        Variable::ParamConnectTimeout => Value::Real(set.connect_timeout),
        Variable::ParamDefaultGrace => Value::Real(set.default_grace),
        Variable::ParamDefaultKeep => Value::Real(set.default_keep),
        Variable::ParamDefaultTtl => Value::Real(set.default_ttl),
        Variable::ParamFirstByteTimeout => Value::Real(set.first_byte_timeout),
        Variable::ParamIdleSendTimeout => Value::Real(60.0),
        Variable::ParamMaxEsiDepth => Value::Int(set.max_esi_depth.into()),
        Variable::ParamMaxRestarts => Value::Int(set.max_restarts.into()),
        Variable::ParamMaxRetries => Value::Int(set.max_retries.into()),
        Variable::ParamPipeTaskDeadline => Value::Real(0.0),
        Variable::ParamPipeTimeout => Value::Real(60.0),
        Variable::ParamSendTimeout => Value::Real(600.0),
        Variable::ParamShortlived => Value::Real(10.0),
        Variable::ParamTimeoutIdle => Value::Real(set.timeout_idle),
        Variable::ParamTransitBuffer => Value::Bytes(0),
        Variable::ParamUncacheableTtl => Value::Real(set.uncacheable_ttl),
        _ => return None,
    })
}
