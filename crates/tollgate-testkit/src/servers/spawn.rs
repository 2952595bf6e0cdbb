//! Children that cannot outlive the tests.
//!
//! A handle kills its child when dropped, but a test process that is itself killed drops nothing. So children are
//! started through `setpriv --pdeathsig KILL` (util-linux), which asks the kernel to kill them when their parent ends,
//! then becomes the program under the same process id.
//!
//! To the kernel the parent is a thread, not a process: a server started on a test's thread and shared with other tests
//! would die with the first of them. Hence one thread that never ends and does nothing but start children.

use std::{
    io,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex, mpsc},
    thread,
};

/// Starts a program from the thread that stays; it reads nothing.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::null());
    let (answer, child) = mpsc::channel();
    NURSERY.lock().expect("nothing panics under this lock").send((command, answer)).expect("the thread stays");
    child.recv().expect("the thread answers")
}

/// A command that will run `program`, and end with this process where the machine knows how.
pub fn leashed(program: PathBuf) -> Command {
    if !*LEASH {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

type Birth = (Command, mpsc::Sender<io::Result<Child>>);

static NURSERY: LazyLock<Mutex<mpsc::Sender<Birth>>> = LazyLock::new(|| {
    let (orders, received) = mpsc::channel::<Birth>();
    thread::Builder::new()
        .name("testkit-nursery".into())
        .spawn(move || {
            for (mut command, answer) in received {
                // Whoever asked waits for the answer; if not, the child's handle is dropped and the leash remains.
                let _ = answer.send(command.spawn());
            }
        })
        .expect("a thread can be started");
    Mutex::new(orders)
});

/// Whether `setpriv` is there and knows the flag; some small systems carry one that does not.
static LEASH: LazyLock<bool> = LazyLock::new(|| {
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
});
