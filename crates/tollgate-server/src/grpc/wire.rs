//! The messages on the wire, as `proto/` describes them. The code is made, never written: see `tests/generated.rs`.
//!
//! One type differs: the value of a descriptor entry is bytes here. On the wire that is the same, and a proxy passes on what
//! its clients wrote, be it UTF-8 or not.
//!
//! Packages that name each other need a tree of modules as deep as their names.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "code that a program wrote")]

/// Everything that Envoy defines.
pub mod envoy {
    /// Headers.
    pub mod config {
        pub mod core {
            pub mod v3 {
                include!("generated/envoy.config.core.v3.rs");
            }
        }
    }
    /// Descriptors.
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    include!("generated/envoy.extensions.common.ratelimit.v3.rs");
                }
            }
        }
    }
    /// The service.
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                include!("generated/envoy.service.ratelimit.v3.rs");
            }
        }
    }
    /// Units.
    pub mod r#type {
        pub mod v3 {
            include!("generated/envoy.type.v3.rs");
        }
    }
}

pub use envoy::{
    config::core::v3::HeaderValue,
    extensions::common::ratelimit::v3::{
        RateLimitDescriptor,
        rate_limit_descriptor::{Entry, RateLimitOverride},
    },
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
        rate_limit_service_client::RateLimitServiceClient,
        rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
    },
    r#type::v3::RateLimitUnit,
};

/// The same as descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
