-- Processes that have ended are thinned by age: their graphs go, and of a process whose id a user chose a row stays, so that
-- the id is not given twice. And those that have not finished are found among a great many that have.
alter table mainspring.process add column thinned boolean not null default false;
create index process_ended on mainspring.process (ended_at) where ended_at is not null and not thinned;
create index process_unfinished on mainspring.process (state, created_at) where state <> 'finished';
