//! The provider against an emulator of Azure, alone and under the engine.

mod crashes;
mod engine;
mod operations;
mod provider;
mod recordings;
mod stage;
