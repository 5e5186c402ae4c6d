-- A number, and nothing else: from here on workers call functions that write visits for them (kernel/functions: offer_batch,
-- clear_queues, move_visits ...). Functions come with every migrate; the number keeps a worker that needs them from starting on a
-- schema that was last migrated by a release without them. Workers of the release before call none of these, and go on.
select;
