//! The systemd unit in `examples` and the container image in `deploy`: their command lines are run, so that they stay current.

use std::{collections::BTreeMap, fs, process::Command};

use ratekeeper_testkit::servers::{Part, require};

use crate::{
    fixture::{Fixture, root},
    serve::{FREE, RULES},
    server_process::ServerProcess,
};

const UNIT: &str = "examples/systemd/ratekeeper.service";
const IMAGE: &str = "deploy/image/Dockerfile";

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The values of a directive of the unit, in order.
fn directive<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

/// The instructions of the image with their arguments; continued lines are joined, comments are left out.
fn instructions(image: &str) -> Vec<(String, String)> {
    let joined = image.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let joined = joined.replace("\\\n", " ");
    let split = |line: &str| line.split_once(' ').map(|(word, rest)| (word.to_owned(), rest.to_owned()));
    joined.lines().filter_map(split).collect()
}

/// Every `RATEKEEPER_…` in a text.
fn variables(text: &str) -> Vec<&str> {
    let name = |c: char| c.is_ascii_uppercase() || c == '_';
    text.split(|c| !name(c)).filter(|word| word.starts_with("RATEKEEPER_")).collect()
}

#[track_caller]
fn are_known(variables: &[&str]) {
    assert!(!variables.is_empty());
    let help = Fixture::new().run(&["serve", "--help"]).stdout;
    for variable in variables {
        let is = |end: &str| help.contains(&format!("{variable}{end}"));
        assert!(["=", "]", "\n", " "].into_iter().any(is), "{variable} is no variable of `ratekeeper serve`");
    }
}

#[test]
fn the_unit_starts_a_server() {
    let unit = read(UNIT);
    let start = directive(&unit, "ExecStart");
    let [start] = start[..] else { panic!("one start: {start:?}") };
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/local/bin/ratekeeper");
    assert!(words.contains(&"/etc/ratekeeper/rules"), "{start}");

    let fixture = Fixture::new();
    fs::create_dir(fixture.path("rules")).unwrap();
    let fixture = fixture.file("rules/api.yaml", RULES);
    let words: Vec<&str> =
        words[1..].iter().map(|word| if *word == "/etc/ratekeeper/rules" { "rules" } else { word }).collect();
    let server = ServerProcess::launch(&fixture, &words, &FREE);
    assert!(server.greeting.contains(r#"["rules"]: 1 (["api"])"#), "{}", server.greeting);
    are_known(&variables(&unit));
}

/// The stop timeout of the unit is above the longest graceful stop by default.
#[test]
fn the_unit_stops_gracefully_and_reloads_by_sighup() {
    let unit = read(UNIT);
    let check = "/usr/local/bin/ratekeeper config check /etc/ratekeeper/rules";
    assert_eq!(directive(&unit, "ExecStartPre"), [check]);
    assert_eq!(directive(&unit, "ExecReload"), [check, "/bin/kill -HUP $MAINPID"]);
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("rules")).unwrap();
    for (rules, code) in [(RULES.to_owned(), 0), (RULES.replace("limit: 2", "limit: 0"), 1)] {
        fs::write(fixture.path("rules/api.yaml"), rules).unwrap();
        assert_eq!(fixture.run(&["config", "check", "rules"]).code, code, "a mistake is printed to systemctl");
    }
    assert_eq!(directive(&unit, "Type"), ["notify"], "tests/cli/notify.rs has what is sent");
    let help = Fixture::new().run(&["serve", "--help"]).stdout;
    let default = |flag: &str| -> u32 {
        let (_, rest) = help.split_once(&format!("--{flag} <")).unwrap();
        let (_, rest) = rest.split_once("[default: ").unwrap();
        rest.split(']').next().unwrap().parse().unwrap()
    };
    let stop_timeout: u32 = directive(&unit, "TimeoutStopSec")[0].parse().unwrap();
    assert!(stop_timeout > default("drain") + default("stop-delay"));
    let files: u32 = directive(&unit, "LimitNOFILE")[0].parse().unwrap();
    assert!(files > 4 * default("max-connections"));
}

#[test]
fn systemd_accepts_the_unit() {
    let fixture = Fixture::new();
    let analyze = |unit: String| {
        fs::write(fixture.path("ratekeeper.service"), unit).unwrap();
        let file = fixture.path("ratekeeper.service");
        let run = Command::new(require(Part::SystemdAnalyze)).args(["verify", "--man=no"]).arg(file).output().unwrap();
        String::from_utf8(run.stderr).unwrap() + &String::from_utf8(run.stdout).unwrap()
    };
    // The program is not installed at the path in the unit.
    let unit = read(UNIT).replace("/usr/local/bin/ratekeeper ", concat!(env!("CARGO_BIN_EXE_ratekeeper"), " "));
    assert_eq!(analyze(unit.clone()), "", "no stderr");
    let printed = analyze(unit.replace("ProtectHome=", "ProtectHose="));
    assert!(printed.contains("ProtectHose"), "it does look: {printed}");
}

#[test]
fn the_image_starts_a_server() {
    let image = read(IMAGE);
    let instructions = instructions(&image);
    let all = |name: &str| {
        instructions.iter().filter(|(word, _)| word == name).map(|(_, rest)| rest.as_str()).collect::<Vec<_>>()
    };
    let list = |name: &str| -> Vec<String> { serde_json::from_str(all(name)[0]).unwrap() };
    assert_eq!(list("ENTRYPOINT"), ["/bin/ratekeeper"]);
    let words = list("CMD");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let environment: BTreeMap<&str, &str> =
        all("ENV").iter().flat_map(|line| line.split_whitespace()).map(|pair| pair.split_once('=').unwrap()).collect();
    are_known(&environment.keys().copied().collect::<Vec<_>>());

    // The exposed ports are those that the server listens on.
    let ports: Vec<&str> =
        ["HTTP", "GRPC", "RESP", "ADMIN"].map(|wire| environment[format!("RATEKEEPER_{wire}").as_str()]).to_vec();
    let open: Vec<_> = ports.iter().map(|address| address.strip_prefix("0.0.0.0:").unwrap()).collect();
    assert_eq!(open.join(" "), all("EXPOSE")[0]);

    // Unchanged, it fails at the missing rules, so no port is opened on this machine.
    let fixture = Fixture::new();
    let as_it_is = fixture.command(&words).envs(&environment).env("RATEKEEPER_RULES", "nowhere").output().unwrap();
    let printed = String::from_utf8(as_it_is.stderr).unwrap();
    assert_eq!(as_it_is.status.code(), Some(2));
    assert!(printed.ends_with("nowhere: there is no such file or directory\n"), "{printed}");

    // On free ports, without a mount: with the rules that the image contains.
    fs::create_dir(fixture.path("image")).unwrap();
    let inside = format!("{}/", environment["RATEKEEPER_RULES"]);
    for copy in all("COPY") {
        let (from, to) = copy.rsplit_once(' ').unwrap();
        if let Some(name) = to.strip_prefix(&inside) {
            fs::copy(root().join(built_from(&image, from)), fixture.path("image").join(name)).unwrap();
        }
    }
    let on_free_ports = |rules| -> Vec<(&str, &str)> {
        let rules = [("RATEKEEPER_RULES", rules)];
        environment.clone().into_iter().chain(FREE).chain(rules).collect()
    };
    let server = ServerProcess::launch(&fixture, &words, &on_free_ports("image"));
    let reply = server.ask("/v1/auth?domain=api&entry=user:value:42");
    assert_eq!((reply.status, server.ask_admin("/readyz").status), (200, 200));
    assert!(reply.header("ratelimit").is_some(), "a sample rule limits it");

    // Its health check, at the port that is bound here.
    let (_, check) = all("HEALTHCHECK")[0].split_once(" CMD ").unwrap();
    let check: Vec<String> = serde_json::from_str(check).unwrap();
    assert_eq!(check[0], list("ENTRYPOINT")[0]);
    let checked: Vec<&str> = check[1..].iter().map(String::as_str).collect();
    let port = server.admin().rsplit_once(':').unwrap().1;
    let healthy = |port: &str| {
        let address = environment["RATEKEEPER_ADMIN"].replace("9090", port);
        let run = fixture.command(&checked).env("RATEKEEPER_ADMIN", address).output().unwrap();
        run.status.code()
    };
    assert_eq!((healthy(port), healthy("1")), (Some(0), Some(1)));
    drop(server);

    // With a mount.
    fs::create_dir(fixture.path("rules")).unwrap();
    let fixture = fixture.file("rules/api.yaml", RULES);
    let server = ServerProcess::launch(&fixture, &words, &on_free_ports("rules"));
    assert_eq!(server.ask_admin("/readyz").status, 200);
    server.signal(all("STOPSIGNAL")[0].strip_prefix("SIG").unwrap());
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
}

/// The file that the build stage copies to this path: `--from=build /out/rules/sample.yaml`.
fn built_from(image: &str, copy: &str) -> String {
    let (folder, name) = copy.strip_prefix("--from=build ").unwrap().rsplit_once('/').unwrap();
    let copied = image.lines().filter_map(|line| line.trim_start().strip_prefix("&& cp ")?.split_once(' '));
    let is_it = |(from, to): &(&str, &str)| from.ends_with(name) && to.starts_with(&format!("{folder}/"));
    copied.into_iter().find(is_it).unwrap_or_else(|| panic!("nothing copies {copy}")).0.to_owned()
}

/// `scripts/ship-check image` builds the image; here, the files it copies exist or are built.
#[test]
fn what_the_image_copies_exists() {
    let image = read(IMAGE);
    let of_build = "cargo build --profile dist --locked -p ratekeeper-cli --features \"$FEATURES\" \\\n";
    assert!(image.contains(of_build) && image.contains("WORKDIR /src\n"));
    let manifest = read("crates/ratekeeper-cli/Cargo.toml");
    assert!(manifest.contains("name = \"ratekeeper-cli\"") && manifest.contains("[[bin]]\nname = \"ratekeeper\""));
    assert!(read("Cargo.toml").contains("[profile.dist]\n"));
    let mut copies = Vec::new();
    for (word, rest) in instructions(&image) {
        let Some((from, _)) = (word == "COPY" && rest != ". .").then(|| rest.rsplit_once(' ').unwrap()) else {
            continue;
        };
        copies.push(built_from(&image, from));
    }
    let rules = "crates/ratekeeper-server/src/sample.yaml";
    assert_eq!(copies, ["target/dist/ratekeeper", "/etc/ssl/certs/ca-certificates.crt", rules]);
    assert!(root().join(rules).is_file());
    let (_, mounted) = image.split_once("-v \"$PWD/").unwrap();
    assert!(root().join(mounted.split(':').next().unwrap()).is_dir(), "the directory in the comment");
    assert!(root().join("Cargo.lock").is_file(), "--locked needs it");
}
