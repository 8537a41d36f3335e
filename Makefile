# What people type. Each target installs what it needs (scripts/setup) and may be run again at any time.

.PHONY: help serve test bench load

help:
	@echo 'make serve   serve the PHP site in demo/ with larder'
	@echo 'make test    everything that has to be green'
	@echo 'make bench   the benches beside hot code'
	@echo 'make load    larder beside nginx and Varnish on this machine: hits; `cargo xtask load --help` lists all scenarios'

serve:
	@scripts/setup serve
	cargo build --release --package larder
	@echo
	@echo 'Open the address below twice: the first request is made by PHP, the second is a hit.'
	cargo run --quiet --release --package larder -- serve demo

test:
	@scripts/setup test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy
	cargo test --workspace
	@echo
	@echo 'make test: all checks and tests passed'

bench:
	@scripts/setup serve
	cargo bench --workspace --bench '*'

load:
	@scripts/setup test
	cargo xtask load
