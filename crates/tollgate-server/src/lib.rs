//! Serves limits over HTTP, gRPC and RESP.

pub mod resp;
