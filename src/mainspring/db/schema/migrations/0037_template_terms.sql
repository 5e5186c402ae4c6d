-- A filter that is kept with its action keeps how that is done, too: from which task on, with or without compensation.
-- Null: as the release before kept it.
alter table mainspring.template add column terms jsonb;
