"""A page for each rung file: `python -m bench.rung_pages`, or `make pages`, writes docs/rungs/.

A page holds the file's own words, a figure of its tiles, what the committed records under bench/results/ say of it, and
what compiling it shows. Only that last part depends on the NVRTC that is installed; the page names the version.
"""
