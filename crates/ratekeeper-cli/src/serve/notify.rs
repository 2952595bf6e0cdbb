//! Notifications for systemd (`Type=notify`): ready, reloading, stopping.
//!
//! One datagram per state to the socket that `NOTIFY_SOCKET` names, see sd_notify(3). Without that variable nothing is
//! sent. A notification that cannot be sent is ignored: it must not stop a server that works.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    sync::Arc,
};

use rustix::time::{ClockId, clock_gettime};

/// The service manager, if there is one. Clones share its socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Notifier(Option<Arc<(UnixDatagram, SocketAddr)>>);

impl Notifier {
    /// The manager that started this process.
    pub(super) fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        match connect(&name) {
            Ok(socket) => Self(Some(Arc::new(socket))),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used; systemd will not learn that the server is ready");
                Self::default()
            }
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// All ports accept connections; also ends a reload.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Files are being read again. systemd wants the time, to tell reloads apart.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Reloading"));
    }

    /// A stop has begun.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Finishing in-flight requests");
    }

    fn send(&self, state: &str) {
        if let Some(manager) = &self.0 {
            let (socket, address) = &**manager;
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// A socket, and the address of the manager's: a path, or after `@` a name in Linux' abstract namespace.
fn connect(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not block the server.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
