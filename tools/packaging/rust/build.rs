//! Compiles c/handles.c, which contains vit.h, by the system's C compiler: $CC, else cc. Another
//! target needs CC_<target> and AR_<target>, with _ in place of -.
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Returns the words of NAME_<target>. If this variable is not set and the target is the host,
/// returns the words of NAME or, if NAME is not set either, of `default`.
fn tool(name: &str, default: &str) -> Vec<String> {
    let target = env::var("TARGET").unwrap();
    let mut names = vec![format!("{}_{}", name, target.replace('-', "_")), format!("{}_{}", name, target)];
    let is_host = env::var("HOST").unwrap() == target;
    if is_host {
        names.push(name.to_string());
    }
    for name in &names {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let found = names.iter().find_map(|name| env::var(name).ok().filter(|value| !value.trim().is_empty()));
    if found.is_none() && !is_host && !default.is_empty() {
        panic!("vit-h for {} needs {}, the name of its compiler or ar", target, names[0]);
    }
    let words = found.unwrap_or_else(|| default.to_string());
    words.split_whitespace().map(str::to_string).collect()
}

fn run(words: &[String], arguments: &[&str]) {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(arguments);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{:?}: {}", command, status),
        Err(error) => panic!(
            "{:?}: {}: vit-h needs a C compiler and ar (Debian: gcc, libc6-dev), or their names in CC and AR",
            command, error
        ),
    }
}

fn main() {
    for file in ["build.rs", "c/handles.c", "c/handles.h", "c/vit.h"] {
        println!("cargo:rerun-if-changed={}", file);
    }
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let object = out.join("handles.o");
    let library = out.join("libvit_h.a");
    let (object, library) = (object.to_str().unwrap(), library.to_str().unwrap());
    let windows = env::var("CARGO_CFG_TARGET_OS").map_or(false, |os| os == "windows");

    // Always optimises, because debug builds without optimisation would be a hundred times slower.
    let mut flags = vec!["-std=c99", "-O2", "-Ic", "-c", "c/handles.c", "-o", object];
    if !windows {
        flags.push("-fPIC");
    }
    let mut compiler = tool("CC", "cc");
    compiler.extend(tool("CFLAGS", ""));
    run(&compiler, &flags);
    let _ = std::fs::remove_file(library);
    run(&tool("AR", "ar"), &["crs", library, object]);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=vit_h");
    if !windows {
        println!("cargo:rustc-link-lib=pthread");
        println!("cargo:rustc-link-lib=m");
    }
}
