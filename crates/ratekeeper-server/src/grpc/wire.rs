//! Protobuf messages of Envoy's rate limit service, generated from `proto/`; `tests/generated.rs` keeps them current.
//!
//! One type differs from Envoy's: the value of a descriptor entry is `bytes` instead of `string`. The encoding is the
//! same, and values that are not UTF-8 can be received, since a proxy forwards what its clients send.
//!
//! The module tree mirrors the package names, because generated code refers to other packages by relative path.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]

/// Envoy's packages.
pub mod envoy {
    /// Header fields.
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

/// The encoded file descriptor set, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
