// tests/embed/c/rust/build.rs: where the library is.
fn main() {
    let folder = std::env::var("MOONLET_LIBRARY_FOLDER").expect("MOONLET_LIBRARY_FOLDER");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rerun-if-env-changed=MOONLET_LIBRARY_FOLDER");
}
