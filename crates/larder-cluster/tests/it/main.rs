//! Nodes of a cluster, with a real redis-server.

mod certificates;
mod fake;
mod faults;
mod limits;
mod node;
mod nodes;
mod pace;
mod purges;
mod servers;
mod share;
mod tickets;
