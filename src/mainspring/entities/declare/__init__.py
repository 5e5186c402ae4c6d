"""What users declare of a kind: stages, states, models, ids, consumers. No I/O but the catalogue.

catalogue.py      which stages and consumers a kind has, by the database and not by this
                  worker's code
consumer.py       who gets the events of a kind
dao.py            a data access object of the user's own, where one table is not enough (S24)
declared_kind.py  a kind as the rooms know it: what was declared of it
event.py          what was saved, as a consumer gets it
ids.py            ids as text and back: the key of an entity's visits, states and events, and
                  ids of the user's own types (S25)
kind_settings.py  settings of a kind and of its crawls, checked once
model.py          rows as the user's types: a dataclass, a msgspec Struct, or plain dicts
outcome.py        `Untouched`, or `Update` with a whole entity or a patch; the time as a stage sees it
partial_model.py  A model with some of its fields: what a stage that declares its reads is
                  given
remote.py         where a stage is that another service implements, and how that is called
stage.py          a stage as it was declared: what is called, and its settings
stage_declaration.py  makes stages of classes, objects and functions, and checks them
state.py          A stage's private state: typed in the code, JSON or a protobuf message in
                  the database
table.py          the user's table as the catalogue of PostgreSQL knows it, and whether a kind
                  can stand on it
sql/              the statements that they send, one a file
"""
