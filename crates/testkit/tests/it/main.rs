//! Tests of the engine and of the whole system over fakes, on virtual time.

mod balancing;
mod controllers;
mod engine;
mod fuzz;
mod sim;
