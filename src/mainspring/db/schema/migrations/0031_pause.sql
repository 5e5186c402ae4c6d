-- A pause of a queue may have a reason and an end. Whoever looks compares the end with the time: nobody has to be there when it comes.
-- A worker of the release before does not see the end, and waits until the queue is resumed.
alter table mainspring.queue
  add column paused_until timestamptz,
  add column pause_reason text;
