//! The tollgate server.

pub mod grpc;
