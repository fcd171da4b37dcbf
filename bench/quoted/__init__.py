"""Numbers that pages quote, made from the committed records: ``python -m bench.quoted`` writes them again.

A page under ``docs/`` writes a number as ``<!--= rate coalesced 4096 -->6.47<!--=-->`` and a table as the lines between
``<!--= table placed -->`` and ``<!--=-->``. What stands between the marks is replaced by what the words in the first
one ask for; :mod:`bench.quoted.values` knows them. A test makes the pages again and fails when they differ.
"""
