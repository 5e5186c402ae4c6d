-- Of what kind a parked visit's error is, and a word that is equal for errors that are alike: kept in its row by the settle that parks
-- it, so that a hundred thousand are counted by an index alone. Null: it does not count as parked by its error, a worker of the release
-- before has parked it, or its workers died. Then the kind is read from the error's text.
-- The index is of parked visits only. No visit can change while it is built: about a second for a million.
alter table mainspring.visit add column error_type text collate "C", add column fingerprint text collate "C";
create index visit_alike on mainspring.visit (error_type, queue, fingerprint, parked_at) where parked_at is not null;
