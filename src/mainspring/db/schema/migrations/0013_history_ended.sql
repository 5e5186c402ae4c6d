-- What ended lately, of all queues: without these, whoever asks walks every queue through every day. A day is that of a run's
-- start, so a span of ends cannot be told by days. Block ranges cost a settle next to nothing: runs are added as they end.
create index history_ended on mainspring.history_run using brin (ended_at) with (pages_per_range = 32, autosummarize = on);
create index history_bundle_ended on mainspring.history_bundle using brin (last_end) with (pages_per_range = 32, autosummarize = on);
