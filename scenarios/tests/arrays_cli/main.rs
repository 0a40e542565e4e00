//! The commands about real md arrays, through the binary, on the images of arrays that Linux made
//! and on files in a directory of the test's own.

mod examine;
mod making;
mod moving;
mod refusals;
mod support;
mod telling;
