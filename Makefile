# Everything a person does here is one of these; Meson and Ninja do the work.
BUILD ?= build

.PHONY: deps build run test lint bench fuzz install clean

build:
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)
	@ninja -C $(BUILD)

test: build
	@meson test -C $(BUILD)

clean:
	rm -rf $(BUILD)
