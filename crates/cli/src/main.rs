//! What runs when `tandem` is called? Everything is in the library beside it, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tandem_cli::main()
}
