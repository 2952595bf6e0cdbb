//! The unit and the image in `examples`: what they say to the command is said to the real one, so that neither goes stale.

use std::{collections::BTreeMap, fs, process::Command};

use tollgate_testkit::servers::{Part, require};

use crate::{
    desk::{Desk, root},
    running::Running,
    serve::{FREE, RULES},
};

const UNIT: &str = "examples/systemd/tollgate.service";
const IMAGE: &str = "examples/docker/Dockerfile";

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The values of a directive of the unit, in order.
fn directive<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

/// Instructions of the image and what follows them; lines that go on are joined, comments left out.
fn instructions(image: &str) -> Vec<(String, String)> {
    let joined = image.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let joined = joined.replace("\\\n", " ");
    let split = |line: &str| line.split_once(' ').map(|(word, rest)| (word.to_owned(), rest.to_owned()));
    joined.lines().filter_map(split).collect()
}

/// Every `TOLLGATE_…` in a text.
fn variables(text: &str) -> Vec<&str> {
    let name = |c: char| c.is_ascii_uppercase() || c == '_';
    text.split(|c| !name(c)).filter(|word| word.starts_with("TOLLGATE_")).collect()
}

#[track_caller]
fn are_known(variables: &[&str]) {
    assert!(!variables.is_empty());
    let help = Desk::new().run(&["serve", "--help"]).out;
    for variable in variables {
        let is = |end: &str| help.contains(&format!("{variable}{end}"));
        assert!(["=", "]", "\n", " "].into_iter().any(is), "{variable} is no variable of `tollgate serve`");
    }
}

#[test]
fn the_unit_starts_a_server_that_serves() {
    let unit = read(UNIT);
    let start = directive(&unit, "ExecStart");
    let [start] = start[..] else { panic!("one start: {start:?}") };
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/local/bin/tollgate");
    assert!(words.contains(&"/etc/tollgate/rules"), "{start}");

    let desk = Desk::new();
    fs::create_dir(desk.path("rules")).unwrap();
    let desk = desk.file("rules/api.yaml", RULES);
    let words: Vec<&str> =
        words[1..].iter().map(|word| if *word == "/etc/tollgate/rules" { "rules" } else { word }).collect();
    let server = Running::launch(&desk, &words, &FREE);
    assert!(server.greeting.contains(r#"["rules"]: 1 (["api"])"#), "{}", server.greeting);
    are_known(&variables(&unit));
}

/// The time that systemd waits is above what the server takes at most, unless it is told otherwise.
#[test]
fn the_unit_waits_for_the_end_and_reloads_by_the_right_signal() {
    let unit = read(UNIT);
    let check = "/usr/local/bin/tollgate config check /etc/tollgate/rules";
    assert_eq!(directive(&unit, "ExecStartPre"), [check]);
    assert_eq!(directive(&unit, "ExecReload"), [check, "/bin/kill -HUP $MAINPID"]);
    let desk = Desk::new();
    fs::create_dir(desk.path("rules")).unwrap();
    for (rules, code) in [(RULES.to_owned(), 0), (RULES.replace("limit: 2", "limit: 0"), 1)] {
        fs::write(desk.path("rules/api.yaml"), rules).unwrap();
        assert_eq!(desk.run(&["config", "check", "rules"]).code, code, "a mistake is told to systemctl");
    }
    assert_eq!(directive(&unit, "Type"), ["exec"], "nobody is notified");
    let help = Desk::new().run(&["serve", "--help"]).out;
    let default = |flag: &str| -> u32 {
        let (_, rest) = help.split_once(&format!("--{flag} <")).unwrap();
        let (_, rest) = rest.split_once("[default: ").unwrap();
        rest.split(']').next().unwrap().parse().unwrap()
    };
    let patience: u32 = directive(&unit, "TimeoutStopSec")[0].parse().unwrap();
    assert!(patience > default("drain") + default("stop-delay"));
    let files: u32 = directive(&unit, "LimitNOFILE")[0].parse().unwrap();
    assert!(files > 4 * default("max-connections"));
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let desk = Desk::new();
    let analyze = |unit: String| {
        fs::write(desk.path("tollgate.service"), unit).unwrap();
        let file = desk.path("tollgate.service");
        let run = Command::new(require(Part::SystemdAnalyze)).args(["verify", "--man=no"]).arg(file).output().unwrap();
        String::from_utf8(run.stderr).unwrap() + &String::from_utf8(run.stdout).unwrap()
    };
    // The program is not installed where the unit says.
    let unit = read(UNIT).replace("/usr/local/bin/tollgate ", concat!(env!("CARGO_BIN_EXE_tollgate"), " "));
    assert_eq!(analyze(unit.clone()), "", "no complaints");
    let told = analyze(unit.replace("ProtectHome=", "ProtectHose="));
    assert!(told.contains("ProtectHose"), "it does look: {told}");
}

#[test]
fn the_image_starts_a_server_that_serves() {
    let instructions = instructions(&read(IMAGE));
    let all = |name: &str| {
        instructions.iter().filter(|(word, _)| word == name).map(|(_, rest)| rest.as_str()).collect::<Vec<_>>()
    };
    let list = |name: &str| -> Vec<String> { serde_json::from_str(all(name)[0]).unwrap() };
    assert_eq!(list("ENTRYPOINT"), ["tollgate"]);
    let words = list("CMD");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let environment: BTreeMap<&str, &str> =
        all("ENV").iter().flat_map(|line| line.split_whitespace()).map(|pair| pair.split_once('=').unwrap()).collect();
    are_known(&environment.keys().copied().collect::<Vec<_>>());

    // Ports that are open inside the container are those that it says.
    let ports: Vec<&str> =
        ["HTTP", "GRPC", "RESP", "ADMIN"].map(|wire| environment[format!("TOLLGATE_{wire}").as_str()]).to_vec();
    let open: Vec<_> = ports.iter().map(|address| address.strip_prefix("0.0.0.0:").unwrap()).collect();
    assert_eq!(open.join(" "), all("EXPOSE")[0]);

    // As it is, up to the rules, which it does not find; so nothing is opened here.
    let desk = Desk::new();
    let as_it_is = desk.command(&words).envs(&environment).env("TOLLGATE_RULES", "nowhere").output().unwrap();
    let told = String::from_utf8(as_it_is.stderr).unwrap();
    assert_eq!(as_it_is.status.code(), Some(2));
    assert!(told.ends_with("nowhere: there is no such file or directory\n"), "{told}");

    // And all the way, on ports of this machine's own: without a mount, by the files that the image has at its rules' place.
    fs::create_dir(desk.path("image")).unwrap();
    let inside = format!("{}/", environment["TOLLGATE_RULES"]);
    for copy in all("COPY") {
        let (from, to) = copy.rsplit_once(' ').unwrap();
        if let Some(name) = to.strip_prefix(&inside) {
            fs::copy(root().join(from), desk.path("image").join(name)).unwrap();
        }
    }
    let on_free_ports = |rules| -> Vec<(&str, &str)> {
        let rules = [("TOLLGATE_RULES", rules)];
        environment.clone().into_iter().chain(FREE).chain(rules).collect()
    };
    let server = Running::launch(&desk, &words, &on_free_ports("image"));
    let reply = server.ask("/v1/auth?domain=api&entry=user:value:42");
    assert_eq!((reply.status, server.ask_admin("/readyz").status), (200, 200));
    assert!(reply.header("ratelimit").is_some(), "a sample rule limits it");
    drop(server);

    // With a mount.
    fs::create_dir(desk.path("rules")).unwrap();
    let desk = desk.file("rules/api.yaml", RULES);
    let server = Running::launch(&desk, &words, &on_free_ports("rules"));
    assert_eq!(server.ask_admin("/readyz").status, 200);
    server.signal(all("STOPSIGNAL")[0].strip_prefix("SIG").unwrap());
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
}

/// No image is built here, but what it is built from is there.
#[test]
fn what_the_image_copies_exists() {
    let image = read(IMAGE);
    let mut copies = 0;
    for (word, rest) in instructions(&image) {
        let Some(from) = (word == "COPY").then(|| rest.split(' ').next().unwrap().to_owned()) else { continue };
        copies += 1;
        if from == "--from=build" {
            // Where cargo puts the program of the package that is built above, by its name.
            assert!(
                image.contains("cargo build --release --locked -p tollgate-cli --features \"$FEATURES\"\n")
                    && image.contains("WORKDIR /src\n")
            );
            assert!(rest.contains("/src/target/release/tollgate /usr/local/bin/tollgate"), "{rest}");
            let manifest = read("crates/tollgate-cli/Cargo.toml");
            assert!(manifest.contains("name = \"tollgate-cli\"") && manifest.contains("[[bin]]\nname = \"tollgate\""));
        } else {
            assert!(root().join(&from).exists(), "{from}");
        }
    }
    assert_eq!(copies, 3);
    let (_, mounted) = image.split_once("-v \"$PWD/").unwrap();
    assert!(root().join(mounted.split(':').next().unwrap()).is_dir(), "the directory in the comment");
    assert!(root().join("Cargo.lock").is_file(), "--locked needs it");
}
