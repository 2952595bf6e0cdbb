//! For tests only.
