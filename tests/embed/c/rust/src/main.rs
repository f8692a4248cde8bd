// tests/embed/c/rust/src/main.rs: a host in Rust, as an example: it gives a vector to a script and gets a
// tensor back.
mod moonlet;

use moonlet::{Interpreter, Tensor};

fn use_scripts() -> Result<(), String> {
    let lua = Interpreter::open()?;
    lua.run("function double(x) return x * 2 end function total(x) return x:sum():item() end")?;
    let x = Tensor::from_vec(vec![1.0, 2.0, 3.0])?;
    let y = lua.map("double", &x)?;
    drop(x);
    assert_eq!(y.to_vec()?, [2.0, 4.0, 6.0]);
    assert_eq!(lua.number("total", &y)?, 12.0);
    let error = lua.run("error 'no luck'").unwrap_err();
    assert_eq!(error, "script:1: no luck");
    assert!(lua.map("total", &y).err().unwrap().contains("expected a tensor"));
    Ok(())
}

fn main() -> Result<(), String> {
    use_scripts()?;
    assert_eq!(moonlet::live_handles(), 0);
    println!("rust: all well");
    Ok(())
}
