# For OpenBench, which runs `make EXE=NAME` and then `./NAME bench`. Everyone else can use Cargo directly.

EXE ?= target/release/rukh
BUILT := target/release/rukh
ifeq ($(OS),Windows_NT)
BUILT := $(BUILT).exe
endif

.PHONY: rukh
rukh:
	cargo build --release --locked --bin rukh --target-dir target
	@if [ "$(EXE)" = target/release/rukh ]; then echo "built $(BUILT)"; else cp "$(BUILT)" "$(EXE)"; fi
