//! What `http` defines for all levels.

use crate::model::{
    AcmeAccount, At, CachePath, CharsetMap, Cluster, ClusterAway, ClusterShelf, Geo, LimitConnZone, LimitReqZone,
    LogFormat, Map, MemoryTotal, Placement, SplitClients, Upstream,
};

/// What `http` defines beside its settings.
#[derive(Debug, Default)]
pub struct HttpParts {
    /// `upstream`.
    pub upstreams: Vec<Upstream>,
    /// `*_cache_path`.
    pub cache_paths: Vec<CachePath>,
    /// `larder_placement`.
    pub placements: Vec<Placement>,
    /// `larder_memory`.
    pub memory_bytes: Option<u64>,
    /// `larder_memory_total`.
    pub memory_total: MemoryTotal,
    /// `log_format`.
    pub log_formats: Vec<LogFormat>,
    /// `map`.
    pub maps: Vec<Map>,
    /// `geo`.
    pub geos: Vec<Geo>,
    /// `split_clients`.
    pub splits: Vec<SplitClients>,
    /// `charset_map`.
    pub charset_maps: Vec<CharsetMap>,
    /// `limit_req_zone`.
    pub limit_req_zones: Vec<LimitReqZone>,
    /// `limit_conn_zone`.
    pub limit_conn_zones: Vec<LimitConnZone>,
    /// `larder_cluster`.
    pub cluster: Option<Cluster>,
    /// `larder_cluster_away`.
    pub cluster_away: Option<At<ClusterAway>>,
    /// `larder_cluster_share`.
    pub cluster_shelf: Option<At<Option<ClusterShelf>>>,
    /// `larder_acme_account`.
    pub acme: Option<AcmeAccount>,
}
