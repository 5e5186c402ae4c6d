-- A worker's launch: one id from the start of its process to its end, kept when it comes back under another worker id after it was
-- declared dead. Host and process number tell no two containers apart. Null: of the release before.
alter table mainspring.worker add column launch uuid;
