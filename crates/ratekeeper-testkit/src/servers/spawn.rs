//! Child processes that end with the test process.
//!
//! A handle kills its child when dropped, but a test process that is killed drops nothing. So children are started with
//! `setpriv --pdeathsig KILL` (util-linux): the kernel kills them when their parent ends. `setpriv` replaces itself by the
//! program, so the process id stays the same.
//!
//! To the kernel the parent is a thread, not a process: a server that is started on the thread of a test and shared with
//! other tests would be killed at the end of that test. Hence one thread starts all children and never ends.

use std::{
    io,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex, mpsc},
    thread,
};

/// Starts a program on the spawning thread, without standard input.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::null());
    let (answer, child) = mpsc::channel();
    SPAWNER.lock().expect("nothing panics under this lock").send((command, answer)).expect("the thread never ends");
    child.recv().expect("the thread answers")
}

/// A command that runs `program` and is killed with this process, if `setpriv` supports it.
pub fn leashed(program: PathBuf) -> Command {
    if !*HAS_PDEATHSIG {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

type SpawnRequest = (Command, mpsc::Sender<io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<mpsc::Sender<SpawnRequest>>> = LazyLock::new(|| {
    let (requests, received) = mpsc::channel::<SpawnRequest>();
    thread::Builder::new()
        .name("testkit-spawner".into())
        .spawn(move || {
            for (mut command, answer) in received {
                // If the caller no longer waits, the handle is dropped; the child is still killed with this process.
                let _ = answer.send(command.spawn());
            }
        })
        .expect("a thread can be started");
    Mutex::new(requests)
});

/// Whether `setpriv` is installed and has the flag, which that of some small systems lacks.
static HAS_PDEATHSIG: LazyLock<bool> = LazyLock::new(|| {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
});
